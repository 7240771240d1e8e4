// Matrix suppression on CUDA.
//
// NOTE [ Matrix suppression on CUDA ]
// Strategy: tiles of pairs, twice. First each object's largest overlap with better ones of its
// group is found; then, when those of all objects are known, its largest loss. Overlaps are
// computed both times, so memory stays proportional to the number of objects. A tile leaves its
// maxima to atomicMax() on numbers that rise as the values do.
//
// Boxes: a thread has an object, a column of the tile, and goes through the tile's better ones, its
// rows, in shared memory. Masks: a block has 32 rows by 32 columns, a thread two by two of them; it
// copies some words of all 64 masks to shared memory and counts the bits that pairs share. Only
// words where both sides of the tile may have bits are looked at, and those that are 0 in a
// thread's rows are passed over.
//
// Split: blocks stride over all tiles; those without a pair of one group do nothing. Maxima don't
// depend on the order.
//
// Rounding: NOTE [ Overlap ] and NOTE [ Matrix suppression ], without contraction (-fmad=false).
//
// Assumes what check_matrix_nms() and the front establish: indices are in range, equal numbers in
// `segment` are adjacent, and within a group objects that take no part come last. Boxes need not be
// finite.

#include "core/suppression/matrix_nms.h"

#include "core/numbers/arithmetic.h"
#include "core/suppression/nms.h"
#include "cuda/launch.h"
#include "cuda/suppression/ordered_bits.h"

namespace visops {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;
constexpr int kBoxRows = 64;
constexpr int kBoxColumns = kThreads;
constexpr int kMasks = kWarp;  // on either side of a tile
constexpr int kMaskSide = 16;  // threads along it
constexpr int kMaskThreads = kMaskSide * kMaskSide;
constexpr int kWordsAtOnce = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

template <class Overlap_, class Score_>
struct MatrixScratch {
  using Overlap = Overlap_;
  using Score = Score_;
  OrderedBits<Overlap>* overlaps;     // [count] the largest of each object
  OrderedBits<Score>* losses;         // [count]
  Overlap *x1, *y1, *x2, *y2, *area;  // [count] each, of boxes only

  MatrixScratch(const MatrixNmsParams& p, Workspace& workspace) {
    const int64_t numbers = p.boxes == nullptr ? 0 : 5;
    const int64_t each = sizeof(Score) + (1 + numbers) * sizeof(Overlap);
    char* memory = allocate<char>(workspace, p.count * each);
    losses = take_array<OrderedBits<Score>>(&memory, p.count);
    overlaps = take_array<OrderedBits<Overlap>>(&memory, p.count);
    x1 = take_array<Overlap>(&memory, p.count * numbers);
    y1 = x1 + p.count;
    x2 = y1 + p.count;
    y2 = x2 + p.count;
    area = y2 + p.count;
  }

  __device__ Box<Overlap> box(int64_t i) const { return {x1[i], y1[i], x2[i], y2[i], area[i]}; }
};

template <class Scratch>
__global__ void __launch_bounds__(kThreads)
    matrix_prepare(const __grid_constant__ MatrixNmsParams p, const Scratch scratch) {
  using Overlap = typename Scratch::Overlap;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < p.count;
       i += stride) {
    scratch.overlaps[i] = ordered_bits(static_cast<Overlap>(0));
    scratch.losses[i] = ordered_bits(no_loss<typename Scratch::Score>(p.decay));
    if (p.boxes == nullptr) continue;
    const int64_t offset = p.order[i] * p.box_stride;
    Box<Overlap> box = load_box<Overlap>(p.boxes, p.dtype, offset, p.coordinate_stride);
    if (is_inert(box)) box = {0, 0, 0, 0, 0};  // overlaps nothing
    scratch.x1[i] = box.x1;
    scratch.y1[i] = box.y1;
    scratch.x2[i] = box.x2;
    scratch.y2[i] = box.y2;
    scratch.area[i] = box.area;
  }
}

// What is looked for first, of an object: its largest overlap with a better one.
template <class Scratch>
struct LargestOverlap {
  using Value = typename Scratch::Overlap;
  struct OfRow {};  // what it needs to know of the better one

  __device__ static Value none(const MatrixNmsParams&) { return static_cast<Value>(0); }
  __device__ static OfRow of_row(const MatrixNmsParams&, const Scratch&, int64_t) { return {}; }
  __device__ static Value value(const MatrixNmsParams&, Value overlap, OfRow) { return overlap; }
  __device__ static OrderedBits<Value>* results(const Scratch& scratch) { return scratch.overlaps; }
};

// And then: its largest loss.
template <class Scratch>
struct LargestLoss {
  using Value = typename Scratch::Score;
  using OfRow = Value;

  __device__ static Value none(const MatrixNmsParams& p) { return no_loss<Value>(p.decay); }
  __device__ static OfRow of_row(const MatrixNmsParams& p, const Scratch& scratch, int64_t i) {
    return compensation(p.decay, static_cast<Value>(value_of_bits(scratch.overlaps[i])));
  }
  __device__ static Value value(const MatrixNmsParams& p, typename Scratch::Overlap overlap,
                                OfRow compensated) {
    return loss_of(p.decay, static_cast<Value>(overlap), compensated);
  }
  __device__ static OrderedBits<Value>* results(const Scratch& scratch) { return scratch.losses; }
};

// Some better objects, and some worse ones.
struct PairTile {
  int64_t row, column;  // the first ones
};

__device__ inline PairTile pair_tile(const MatrixNmsParams& p, int64_t i, int rows, int columns) {
  const int64_t across = (p.count + columns - 1) / columns, down = i / across;
  return {down * rows, (i - down * across) * columns};
}

// Whether it has two objects of one group, the row's before the column's.
__device__ inline bool has_pairs(const MatrixNmsParams& p, const PairTile& tile, int rows,
                                 int columns) {
  if (tile.row >= tile.column + columns) return false;
  const int64_t last_row = tile.row + rows - 1;
  return last_row >= tile.column || p.segment[last_row] == p.segment[tile.column];
}

template <class Search, class Scratch>
__device__ void join(const MatrixNmsParams& p, const Scratch& scratch, int64_t i,
                     typename Search::Value largest) {
  if (largest > Search::none(p)) atomicMax(Search::results(scratch) + i, ordered_bits(largest));
}

template <class Scratch>
__device__ bool takes_part(const MatrixNmsParams& p, int64_t i) {
  using Score = typename Scratch::Score;
  return i < p.count && score_at<Score>(p, i) >= static_cast<Score>(0);
}

template <class Search, class Scratch>
__global__ void __launch_bounds__(kThreads)
    matrix_boxes(const __grid_constant__ MatrixNmsParams p, const Scratch scratch,
                 const int64_t tiles) {
  using Overlap = typename Scratch::Overlap;
  __shared__ Box<Overlap> better[kBoxRows];
  __shared__ int64_t group[kBoxRows];
  __shared__ typename Search::OfRow of_row[kBoxRows];
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const PairTile tile = pair_tile(p, t, kBoxRows, kBoxColumns);
    if (!has_pairs(p, tile, kBoxRows, kBoxColumns)) continue;
    if (thread < kBoxRows && tile.row + thread < p.count) {
      better[thread] = scratch.box(tile.row + thread);
      group[thread] = p.segment[tile.row + thread];
      of_row[thread] = Search::of_row(p, scratch, tile.row + thread);
    }
    __syncthreads();
    const int64_t i = tile.column + thread;
    if (takes_part<Scratch>(p, i)) {
      const Box<Overlap> box = scratch.box(i);
      const int64_t mine = p.segment[i];
      const int rows = i - tile.row < kBoxRows ? static_cast<int>(i - tile.row) : kBoxRows;
      auto largest = Search::none(p);
      for (int r = 0; r < rows; ++r) {
        const Overlap overlap = overlap_of(better[r], box);
        if (!(overlap > static_cast<Overlap>(0)) || group[r] != mine) continue;
        const auto found = Search::value(p, overlap, of_row[r]);
        largest = found > largest ? found : largest;
      }
      join<Search>(p, scratch, i, largest);
    }
    __syncthreads();  // before the next tile's rows replace these
  }
}

struct WordSpan {
  int64_t begin, end;
};

template <class OfRow>
struct MaskTile {
  uint64_t words[2][kMasks][kWordsAtOnce + 1];  // rows, columns; one more for the banks
  MaskExtent extent[2][kMasks];
  int64_t group[2][kMasks];
  OfRow of_row[kMasks];
  WordSpan span[2];
};

// All words of 32 masks that have bits.
__device__ inline WordSpan span_of_warp(WordSpan span) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int64_t begin = __shfl_xor_sync(kWholeWarp, span.begin, step);
    const int64_t end = __shfl_xor_sync(kWholeWarp, span.end, step);
    span = {begin < span.begin ? begin : span.begin, end > span.end ? end : span.end};
  }
  return span;
}

// Called by two warps: one has the rows, one the columns. Columns that take no part have no bits.
template <class Search, class Scratch>
__device__ void describe_masks(const MatrixNmsParams& p, const Scratch& scratch,
                               const PairTile& tile, MaskTile<typename Search::OfRow>* shared) {
  const int side = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t i = (side == 0 ? tile.row : tile.column) + lane;
  const bool wanted = side == 0 ? i < p.count : takes_part<Scratch>(p, i);
  const MaskExtent extent = wanted ? p.extent[i] : MaskExtent{p.words, 0, 0};
  shared->extent[side][lane] = extent;
  if (i < p.count) {
    shared->group[side][lane] = p.segment[i];
    if (side == 0) shared->of_row[lane] = Search::of_row(p, scratch, i);
  }
  const WordSpan span = span_of_warp({extent.begin, extent.end});
  if (lane == 0) shared->span[side] = span;
}

// Adds up the bits that each of a thread's rows, kMaskSide apart, shares with each of its columns.
// Called by all threads of the block, which synchronise here.
template <class OfRow>
__device__ void count_common(const MatrixNmsParams& p, const PairTile& tile,
                             MaskTile<OfRow>* shared, int64_t common[2][2]) {
  const int row = static_cast<int>(threadIdx.x) / kMaskSide;
  const int column = static_cast<int>(threadIdx.x) % kMaskSide;
  const WordSpan rows = shared->span[0], columns = shared->span[1];
  const int64_t begin = rows.begin > columns.begin ? rows.begin : columns.begin;
  const int64_t end = rows.end < columns.end ? rows.end : columns.end;
  for (int64_t first = begin; first < end; first += kWordsAtOnce) {
    for (int n = static_cast<int>(threadIdx.x); n < 2 * kMasks * kWordsAtOnce; n += kMaskThreads) {
      const int mask = n / kWordsAtOnce, side = mask / kMasks, w = n % kWordsAtOnce;
      const int64_t i = (side == 0 ? tile.row : tile.column) + mask % kMasks;
      const bool wanted = i < p.count && first + w < end;
      shared->words[side][mask % kMasks][w] = wanted ? p.bits[i * p.words + first + w] : 0;
    }
    __syncthreads();
    int sum[2][2] = {};
    for (int w = 0; w < kWordsAtOnce; ++w) {
      const uint64_t a = shared->words[0][row][w], b = shared->words[0][row + kMaskSide][w];
      if ((a | b) == 0) continue;
      const uint64_t c = shared->words[1][column][w], d = shared->words[1][column + kMaskSide][w];
      sum[0][0] += __popcll(a & c);
      sum[0][1] += __popcll(a & d);
      sum[1][0] += __popcll(b & c);
      sum[1][1] += __popcll(b & d);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) common[n / 2][n % 2] += sum[n / 2][n % 2];
    __syncthreads();  // before the next words replace these
  }
}

template <class Search, class Scratch>
__global__ void __launch_bounds__(kMaskThreads)
    matrix_masks(const __grid_constant__ MatrixNmsParams p, const Scratch scratch,
                 const int64_t tiles) {
  __shared__ MaskTile<typename Search::OfRow> shared;
  const int row = static_cast<int>(threadIdx.x) / kMaskSide;
  const int column = static_cast<int>(threadIdx.x) % kMaskSide;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const PairTile tile = pair_tile(p, t, kMasks, kMasks);
    if (!has_pairs(p, tile, kMasks, kMasks)) continue;
    if (threadIdx.x < 2 * kWarp) describe_masks<Search>(p, scratch, tile, &shared);
    __syncthreads();
    int64_t common[2][2] = {};
    count_common(p, tile, &shared, common);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int at = column + c * kMaskSide;
      auto largest = Search::none(p);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int better = row + r * kMaskSide;
        if (common[r][c] == 0 || tile.row + better >= tile.column + at ||
            shared.group[0][better] != shared.group[1][at]) {
          continue;
        }
        const double overlap =
            overlap_of(shared.extent[1][at], shared.extent[0][better], common[r][c]);
        const auto found = Search::value(p, overlap, shared.of_row[better]);
        largest = found > largest ? found : largest;
      }
      // The warp's other row.
      const auto other = __shfl_xor_sync(kWholeWarp, largest, kMaskSide);
      largest = other > largest ? other : largest;
      if (row % 2 == 0) join<Search>(p, scratch, tile.column + at, largest);
    }
    __syncthreads();  // before the next tile's masks replace these
  }
}

template <class Scratch>
__global__ void __launch_bounds__(kThreads)
    matrix_decay(const __grid_constant__ MatrixNmsParams p, const Scratch scratch) {
  using Score = typename Scratch::Score;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < p.count;
       i += stride) {
    const Score score = score_at<Score>(p, i);
    Score changed = static_cast<Score>(-1);
    if (score >= static_cast<Score>(0)) {
      changed = decayed(p, score, value_of_bits(scratch.losses[i]));
    }
    store_score(p, i, changed);
  }
}

template <template <class> class Search, class Scratch>
void search(const MatrixNmsParams& p, const Scratch& scratch, void* stream) {
  if (p.boxes != nullptr) {
    const int64_t tiles = parts_of(p.count, kBoxRows) * parts_of(p.count, kBoxColumns);
    launch(matrix_boxes<Search<Scratch>, Scratch>, grid_for(tiles), dim3(kThreads), 0, stream, p,
           scratch, tiles);
  } else if constexpr (sizeof(typename Scratch::Overlap) == sizeof(double)) {
    const int64_t tiles = parts_of(p.count, kMasks) * parts_of(p.count, kMasks);
    launch(matrix_masks<Search<Scratch>, Scratch>, grid_for(tiles), dim3(kMaskThreads), 0, stream,
           p, scratch, tiles);
  }
}

template <class Overlap, class Score>
void matrix_nms_as(const MatrixNmsParams& p, Workspace& workspace) {
  using Scratch = MatrixScratch<Overlap, Score>;
  const Scratch scratch(p, workspace);
  void* stream = workspace.stream();
  const dim3 objects = grid_for(parts_of(p.count, kThreads));
  launch(matrix_prepare<Scratch>, objects, dim3(kThreads), 0, stream, p, scratch);
  search<LargestOverlap>(p, scratch, stream);
  search<LargestLoss>(p, scratch, stream);
  launch(matrix_decay<Scratch>, objects, dim3(kThreads), 0, stream, p, scratch);
}

void matrix_nms_cuda(const MatrixNmsParams& p, Workspace& workspace) {
  if (overlaps_in_double(p)) {
    matrix_nms_as<double, double>(p, workspace);
  } else if (scores_in_double(p)) {
    matrix_nms_as<float, double>(p, workspace);
  } else {
    matrix_nms_as<float, float>(p, workspace);
  }
}

const bool registered = matrix_nms_stub.set(kCudaSlot, matrix_nms_cuda);

}  // namespace
}  // namespace visops
