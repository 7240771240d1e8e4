// antialias where maps are upright; NOTE [ Upright filter on CUDA ].
//
// NOTE [ Upright filter on CUDA ]
// A filter of n x n taps is separable, and NOTE [ One augmented pixel ] sums tap rows first: for a
// tap column j, v_j = sum_i wy_i p_ij. Where the map is upright, all pixels of an output row have
// the same wy and share their tap columns. So a warp takes 32 pixels of a row. Each of its lanes
// sums two columns of the source, from top to bottom, into shared memory, kFilterColumns at a time;
// then each lane adds those to its pixel that are its taps, from left to right. Sums have the terms
// and the order of augment_forward(), and so its bits.
//
// Weights of a row's taps are computed once, and lie in shared memory with the places of their
// rows. Loads of a warp are of one source row, side by side, for planar and interleaved images
// alike. An element is read by as many warps as output rows have it as a tap (two, or four), most
// of them in one block; and by neighbours where their columns meet.
//
// In integers (IntegerPiece) a lane sums four elements of a row at once, and takes two tap rows at
// a time: loads are of 32 bits, and a dot product of two 16-bit weights with two bytes is exact.
// Weights of tap columns are computed once for all rows of the tile.
#include "core/numbers/element_types.h"
#include "core/warp/augment_group.h"
#include "cuda/byte_products.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_color.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_store.h"

namespace visops {
namespace {

// What a block of augment_filter() knows about its tile, prepared once in shared memory.

constexpr int kFilterRows = 16;  // of a tile; it is kTileWidth wide
constexpr int kFilterThreads = 256;

// A column or a row of output pixels: what its pixels share. In float32 it has seven words, an odd
// number, so that the lines of a warp's lanes begin in different banks of shared memory.
template <class Acc>
struct FilterLine {
  FilterTaps<Acc> taps;
  Acc cover;   // by the window, along this axis
  float unit;  // of a column's sums in integers
};

static_assert(sizeof(FilterLine<float>) / sizeof(float) % 2 == 1, "an odd number of words");

// `integers`: of uint8 samples that are filtered in integers.
template <class T, bool integers>
struct FilterTile {
  using Acc = typename Accumulate<T>::type;
  // In integers a weight depends on those before it, so one thread computes all of a line.
  static constexpr int kWeights = integers ? kMostIntegerTaps : 2;
  int64_t index;  // of the sample
  int32_t left, top;
  AugmentSample sample;
  SegmentAxis<Acc> x, y[kFilterRows];
  FilterLine<Acc> column[kTileWidth], row[kFilterRows];
  uint32_t row_weight[integers ? kFilterRows : 1][kWeights / 2];  // two in a number
  int shift[integers ? kFilterRows : 1];                          // of a row's sums
  int16_t column_weight[kWeights][integers ? kTileWidth : 1];
  ColorPlan<Acc> plan;
  ChannelValues<Acc> values;
  bool erased;  // some rectangle reaches into the tile
  bool words;   // OutputLayout::writes_words()
};

// One thread's column of the tile, or row.
template <Interpolation mode, class T, bool integers>
__device__ inline void prepare_line(const AugmentParams& p, bool is_column, int index,
                                    FilterTile<T, integers>* tile) {
  using Acc = typename Accumulate<T>::type;
  const AugmentSample& s = tile->sample;
  AugmentMap map = s.map;
  map.perspective = false;  // known, and the compiler sees it
  const AugmentSegment<Acc> segment = augment_segment<Acc>(map, tile->left - tile->left % kSegment,
                                                           tile->top + (is_column ? 0 : index));
  const AxisWindow& window = is_column ? s.x : s.y;
  SegmentAxis<Acc> axis;  // as of segment_axes(), but for the other one
  set_axis_widths(s, window, is_column ? segment.width_x : segment.width_y, &axis);
  position_axis(window, is_column ? segment.x : segment.y, &axis);
  const int lane = is_column ? tile->left % static_cast<int>(kSegment) + index : 0;
  const LanePoint<Acc> point = lane_point(segment, lane);
  const Acc centre = is_column ? point.x : point.y;
  FilterLine<Acc>* line = is_column ? &tile->column[index] : &tile->row[index];
  const FilterTaps<Acc> taps = filter_taps<mode>(axis, p.padding, centre);
  line->taps = taps;
  line->cover = edge_cover(axis, centre);
  if (!is_column) {
    tile->y[index] = axis;
  } else if (index == 0) {
    tile->x = axis;
  }
  if constexpr (integers) {
    IntegerTaps t = is_column ? integer_columns<mode>(taps) : integer_rows<mode>(taps);
    line->unit = integer_unit<mode>(t);
    if (!is_column) tile->shift[index] = t.shift;
    uint32_t pair = 0;
    for (int32_t i = 0; i < taps.count; ++i) {
      const auto weight = static_cast<int16_t>(next_weight<mode>(taps, i, &t));
      if (is_column) {
        tile->column_weight[i][index] = weight;
      } else {
        const uint32_t half = static_cast<uint16_t>(weight);
        pair = i % 2 == 0 ? half : pair | half << 16;
        tile->row_weight[index][i / 2] = pair;
      }
    }
  }
}

// The least number of all lanes.
__device__ inline int32_t least_of_warp(int32_t number) {
  const uint32_t ordered = static_cast<uint32_t>(number) ^ 0x80000000u;
  return static_cast<int32_t>(~__reduce_max_sync(0xffffffffu, ~ordered) ^ 0x80000000u);
}

// Where the tap columns of a warp's pixels end; a lane has `count` from `first` on.
__device__ inline int32_t end_of_warp(int32_t first, int32_t count) {
  return ~least_of_warp(count > 0 ? ~(first + count - 1) : INT32_MAX) + 1;
}

// Called by all threads of the block, and synchronizes them. The first thread does the sample, two
// warps a column a thread, one a row a thread, the others rectangles, numbers and colours.
template <Interpolation mode, class T, bool integers>
__device__ inline void prepare_filter(const AugmentParams& p, const TileGrid& grid,
                                      const TileAt& at, FilterTile<T, integers>* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    tile->index = at.sample;
    tile->left = at.x;
    tile->top = at.y;
    tile->sample = p.samples[at.sample];
  } else if (thread == kWarp) {
    tile->erased = tile_meets_erase(p, grid, at);
    tile->words = output_layout(p).writes_words();
  } else if (thread >= 2 * kWarp) {
    constexpr int kThreads = kFilterThreads - 2 * kWarp;
    share_values(p, thread - 2 * kWarp, kThreads, &tile->values);
    share_color_plan(p, at.sample, thread - 2 * kWarp, kThreads, &tile->plan);
  }
  __syncthreads();  // the sample is there
  if (thread < kTileWidth + kFilterRows) {
    const bool is_column = thread < kTileWidth;
    prepare_line<mode>(p, is_column, is_column ? thread : thread - kTileWidth, tile);
  }
  __syncthreads();  // all of the tile is there
}

// augment_filter() in integers: a warp's pixels of a row. NOTE [ Upright filter on CUDA ].

constexpr int kIntegerSums = 256;  // that a warp holds at once: tap columns of all its channels

struct alignas(16) FourSums {
  int32_t of[4];
};

// Four elements in a row of one tap row, as a number with the first in the lowest byte.
struct AlignedFour {
  __device__ uint32_t operator()(const char* from) const {
    return load_readonly(reinterpret_cast<const uint32_t*>(from));
  }
};

// Where rows begin anywhere. Reads up to three elements before them, and four behind.
struct AnyFour {
  __device__ uint32_t operator()(const char* from) const {
    const uint32_t past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 4);
    const auto* const words = reinterpret_cast<const uint32_t*>(from - past);
    return __funnelshift_r(load_readonly(words), load_readonly(words + 1), 8 * past);
  }
};

// Elements of the source lie in runs of neighbours, and their sums in the same order: one run of
// all channels' elements if they are interleaved, else one for each channel.
struct IntegerPiece {
  const FilterTile<uint8_t, true>& tile;
  int32_t* sums;  // [kIntegerSums], of this warp
  int row, lane;
  int count;          // channels
  const char* image;  // the plane of the first

  __device__ bool interleaved() const {
    return count == 1 || tile.sample.image.channel_stride == 1;
  }
  // How many sums a run has room for: whole FourSums.
  __device__ int run_sums() const {
    return interleaved() ? kIntegerSums : kIntegerSums / count / 4 * 4;
  }
  __device__ int step() const { return interleaved() ? count : 1; }

  // Sums tap rows of the four elements of each row from `from` on.
  template <class Four>
  __device__ void sum_rows(const Four& four, const char* from, FourSums* sum) const {
    const int32_t taps = tile.row[row].taps.count;
    const int64_t stride = tile.sample.image.row_stride;
    const uint32_t* weights = tile.row_weight[row];
    const auto add = [&](uint32_t above, uint32_t below, uint32_t weight) {
      // p - 128 is a signed byte. Two rows' bytes in turn, for two products at once.
      const uint32_t left = __byte_perm(above, below, 0x5140) ^ 0x80808080u;
      const uint32_t right = __byte_perm(above, below, 0x7362) ^ 0x80808080u;
      const int pair = static_cast<int>(weight);
      sum->of[0] = __dp2a_lo(pair, static_cast<int>(left), sum->of[0]);
      sum->of[1] = __dp2a_hi(pair, static_cast<int>(left), sum->of[1]);
      sum->of[2] = __dp2a_lo(pair, static_cast<int>(right), sum->of[2]);
      sum->of[3] = __dp2a_hi(pair, static_cast<int>(right), sum->of[3]);
    };
    const auto next = [&] {
      const uint32_t elements = four(from);
      from += stride;
      return elements;
    };
    int32_t left = taps;
#pragma unroll 1
    for (; left >= 4; left -= 4, weights += 2) {
      const uint32_t a = next(), b = next(), c = next(), d = next();  // all on their way at once
      add(a, b, weights[0]);
      add(c, d, weights[1]);
    }
    if (left >= 2) {
      const uint32_t a = next(), b = next();
      add(a, b, *weights++);
    }
    if (left % 2 != 0) add(next(), 0, *weights);  // the second weight is 0
  }

  // Sums the tap rows of one element.
  __device__ int32_t sum_one(const char* from) const {
    const int32_t taps = tile.row[row].taps.count;
    int32_t sum = 0;
#pragma unroll 1
    for (int32_t i = 0; i < taps; ++i, from += tile.sample.image.row_stride) {
      const auto weight = static_cast<int16_t>(tile.row_weight[row][i / 2] >> (16 * (i % 2)));
      sum += weight *
             (static_cast<int32_t>(load_readonly(reinterpret_cast<const uint8_t*>(from))) - 128);
    }
    return sum;
  }

  // Sums tap columns from `from` on, and before `end`; `most` of a run. Returns how many sums lie
  // before the first one's.
  __device__ int sum_columns(int32_t from, int32_t end, int most) const {
    const AugmentImage& source = tile.sample.image;
    const FilterTaps<float>& rows = tile.row[row].taps;
    const int64_t first_row =
        filter_index(tile.y[row], tile.sample.y, Padding::kConstant, rows.first);
    const int64_t first_column = filter_index(tile.x, tile.sample.x, Padding::kConstant, from);
    const char* const begin = image + first_row * source.row_stride;
    const int64_t at = first_column * step();  // in elements of a run
    const int64_t size = source.width * step();
    const bool runs = source.column_stride == step();
    const bool aligned =
        runs && source.row_stride % 4 == 0 && (interleaved() || source.channel_stride % 4 == 0);
    const int skipped = aligned ? static_cast<int>(reinterpret_cast<uintptr_t>(begin + at) % 4) : 0;
    const int wanted = skipped + (end - from) * step();
    const int fours = ((wanted < most ? wanted : most) + 3) / 4;
    const int last_run = interleaved() ? 0 : count - 1;
    int channel = 0;
    for (int four = lane;; four += kWarp) {
      for (; four >= fours && channel <= last_run; four -= fours) ++channel;
      if (channel > last_run) break;
      const int64_t element = at - skipped + 4 * four;
      const char* const plane = begin + channel * source.channel_stride;
      FourSums sum = {};
      if (aligned && element >= 0 && element + 4 <= size) {
        sum_rows(AlignedFour{}, plane + element, &sum);
      } else if (runs && !aligned && element >= 3 && element + 8 <= size) {
        sum_rows(AnyFour{}, plane + element, &sum);
      } else {
        // Elements lie apart, or others around them may not be read.
        for (int j = 0; j < 4; ++j) {
          const int rest = 4 * four + j - skipped, tap = rest / step();
          const int64_t column = first_column + tap;
          if (rest < 0 || column >= source.width) continue;
          sum.of[j] = sum_one(plane + column * source.column_stride + (rest - tap * step()));
        }
      }
      const int shift = tile.shift[row];
      for (int j = 0; j < 4; ++j) sum.of[j] = round_column(sum.of[j], shift);
      *reinterpret_cast<FourSums*>(sums + channel * most + 4 * four) = sum;
    }
    return skipped;
  }

  // As FilterPiece::filter().
  __device__ void filter(int column, bool inside, float value[kPixelGroup]) const {
    const FilterLine<float>& line = tile.column[column];
    const int32_t wanted = inside ? line.taps.count : 0;
    const int32_t end = end_of_warp(line.taps.first, wanted);
    const int most = run_sums(), apart = interleaved() ? 1 : most;
    int32_t sum[kPixelGroup] = {};
    for (int32_t done = 0;;) {
      const int32_t next = line.taps.first + done;
      const int32_t from = least_of_warp(done < wanted ? next : INT32_MAX);
      if (from == INT32_MAX) break;
      const int skipped = sum_columns(from, end, most);
      const auto columns = static_cast<uint32_t>((most - skipped) / step());
      __syncwarp();  // their sums are there
      for (; done < wanted; ++done) {
        const uint32_t k =
            static_cast<uint32_t>(line.taps.first + done) - static_cast<uint32_t>(from);
        if (k >= columns) break;
        const int32_t weight = tile.column_weight[done][column];
        const int32_t* const at = sums + skipped + static_cast<int>(k) * step();
        for (int c = 0; c < kPixelGroup; ++c) {
          if (c >= count) break;
          sum[c] += weight * at[c * apart];
        }
      }
      __syncwarp();  // all lanes have read, before other columns take their place
    }
    for (int c = 0; c < kPixelGroup; ++c) {
      value[c] = static_cast<float>(sum[c]) * line.unit + 128.0f;
    }
  }
};

constexpr int kFilterColumns = 2 * kWarp;  // tap columns that a warp sums at a time
constexpr int kFilterTaps = 64;            // tap rows whose weights a warp holds

// A warp's part of shared memory. Where the sample is filtered in integers, it holds their sums.
template <class Acc>
struct alignas(16) FilterScratch {
  int64_t offset[kFilterTaps];  // of tap rows, in bytes
  Acc weight[kFilterTaps];
  uint64_t column[kPixelGroup * kFilterColumns * sizeof(Acc) / sizeof(uint64_t)];
  int32_t end;  // of the tap columns that the warp's pixels have
};

static_assert(sizeof(FilterScratch<float>::column) >= kStaged * sizeof(uint64_t),
              "output is staged there");
static_assert(sizeof(FilterScratch<float>::column) >= kIntegerSums * sizeof(int32_t),
              "integer sums lie there");

// The element `offset` bytes on, as a term of the sums.
template <class T, class Acc>
__device__ inline Acc filter_element(const char* from, int64_t offset) {
  const T element = load_readonly(reinterpret_cast<const T*>(from + offset));
  return static_cast<Acc>(load_element(&element));
}

// Some pixels of an output row, as a warp sees them.
template <class T, Interpolation mode>
struct FilterPiece {
  using Acc = typename Accumulate<T>::type;
  const AugmentParams& p;
  const FilterTile<T, false>& tile;
  FilterScratch<Acc>* scratch;
  int row, lane;

  __device__ Acc* columns() const { return reinterpret_cast<Acc*>(scratch->column); }

  // Weights and places of up to kFilterTaps tap rows, from tap `from` on.
  __device__ void load_rows(int32_t from) const {
    const FilterTaps<Acc>& taps = tile.row[row].taps;
    for (int32_t i = lane; i < kFilterTaps && from + i < taps.count; i += kWarp) {
      const int32_t k = taps.first + from + i;
      scratch->weight[i] = filter_tap<mode>(taps, k) * taps.norm;
      scratch->offset[i] = filter_index(tile.y[row], tile.sample.y, p.padding, k) *
                           tile.sample.image.row_stride * int64_t{sizeof(T)};
    }
  }

  // Sums tap columns [from, from + kFilterColumns) of `count` channels.
  __device__ void sum_columns(const char* image, int count, int32_t from) const {
    const int32_t taps = tile.row[row].taps.count;
    const int step = step_of(count);
    for (int k = lane; k < count * kFilterColumns; k += 2 * kWarp) {
      const char* const one = image + position(k, step, from);
      const char* const two = image + position(k + kWarp, step, from);
      Acc sum_one = 0, sum_two = 0;
      for (int32_t first = 0; first < taps; first += kFilterTaps) {
        if (taps > kFilterTaps) {
          __syncwarp();  // all lanes have read the last weights
          load_rows(first);
          __syncwarp();  // these are there
        }
        const int32_t left = taps - first, some = left < kFilterTaps ? left : kFilterTaps;
#pragma unroll 4
        for (int32_t i = 0; i < some; ++i) {
          const Acc weight = scratch->weight[i];
          const int64_t offset = scratch->offset[i];
          sum_one = sum_one + weight * filter_element<T, Acc>(one, offset);
          sum_two = sum_two + weight * filter_element<T, Acc>(two, offset);
        }
      }
      columns()[k] = sum_one;
      columns()[k + kWarp] = sum_two;
    }
  }

  // `count` channels, before they are blended with fill; `column` is the tile's, and only lanes
  // that are `inside` need a value. `image` is the plane of the first channel.
  __device__ void filter(const char* image, int count, int column, bool inside,
                         Acc value[kPixelGroup]) const {
    const FilterLine<Acc>& line = tile.column[column];
    const int32_t wanted = inside ? line.taps.count : 0;
    const int32_t end = end_of_warp(line.taps.first, wanted);
    if (lane == 0) scratch->end = end;
    for (int c = 0; c < kPixelGroup; ++c) value[c] = static_cast<Acc>(0);
    load_rows(0);
    __syncwarp();  // weights and the end are there
    for (int32_t done = 0;;) {
      const int32_t next = line.taps.first + done;
      const int32_t from = least_of_warp(done < wanted ? next : INT32_MAX);
      if (from == INT32_MAX) break;
      sum_columns(image, count, from);
      __syncwarp();  // columns are there
      const FilterTaps<Acc> taps = line.taps;
      const int step = step_of(count);
      for (; done < wanted; ++done) {
        const uint32_t k = static_cast<uint32_t>(taps.first + done) - static_cast<uint32_t>(from);
        if (k >= kFilterColumns) break;
        const Acc weight = filter_tap<mode>(taps, taps.first + done) * taps.norm;
        const Acc* const at = columns() + static_cast<int>(k) * (step > 0 ? step : 1);
        for (int c = 0; c < kPixelGroup; ++c) {
          if (c >= count) break;
          value[c] = value[c] + weight * at[step > 0 ? c : c * kFilterColumns];
        }
      }
      __syncwarp();  // all lanes have read, before others take the columns' place
    }
  }

 private:
  // How sums of `count` channels lie: element k is of column k / step and channel k % step; or of
  // k % kFilterColumns and k / kFilterColumns if the image's planes lie apart (step is 0).
  __device__ int step_of(int count) const {
    return tile.sample.image.channel_stride == 1 ? count : 0;
  }

  // Where in the image element k of the sums begins, in bytes.
  __device__ int64_t position(int k, int step, int32_t from) const {
    const AugmentImage& image = tile.sample.image;
    const int column = step > 0 ? k / step : k % kFilterColumns;
    const int channel = step > 0 ? k - column * step : k / kFilterColumns;
    // What lies beyond the last tap does not matter.
    const int32_t last = scratch->end - 1, tap = from + column < last ? from + column : last;
    return (filter_index(tile.x, tile.sample.x, p.padding, tap) * image.column_stride +
            channel * image.channel_stride) *
           int64_t{sizeof(T)};
  }
};

template <Interpolation mode, class T, bool integers, class Acc>
__device__ void filter_group(const AugmentParams& p, const FilterTile<T, integers>& tile, int row,
                             int column, bool inside, int64_t first, int count,
                             FilterScratch<Acc>* scratch, Acc value[kPixelGroup]) {
  const AugmentImage& image = tile.sample.image;
  const char* const plane =
      static_cast<const char*>(image.data) + first * image.channel_stride * int64_t{sizeof(T)};
  const int lane = column % kWarp;
  if constexpr (integers) {
    auto* const sums = reinterpret_cast<int32_t*>(scratch->column);
    const IntegerPiece piece = {tile, sums, row, lane, count, plane};
    piece.filter(column, inside, value);
  } else {
    const FilterPiece<T, mode> piece = {p, tile, scratch, row, lane};
    piece.filter(plane, count, column, inside, value);
  }
}

// How much of a pixel is not the window's.
template <class T, bool integers, class Acc = typename Accumulate<T>::type>
__device__ Acc uncovered(const AugmentParams& p, const FilterTile<T, integers>& tile, int row,
                         int column) {
  if (!blends_edge(p, tile.sample)) return static_cast<Acc>(0);
  return static_cast<Acc>(1) - tile.column[column].cover * tile.row[row].cover;
}

// This thread's pixel: `row` and `column` of the tile. What follows from them is computed again
// after the filter, which needs the registers.
template <Interpolation mode, class T, bool integers, class Acc>
__device__ void filter_pixel_at(const AugmentParams& p, const FilterTile<T, integers>& tile,
                                int row, int column, FilterScratch<Acc>* scratch) {
  const auto is_erased_here = [&] {
    return tile.erased && is_erased(p, tile.index, tile.left + column, tile.top + row);
  };
  for (int first = 0; first < p.channels; first += kPixelGroup) {
    const ChannelGroup<0> channels = {first, group_size(p, first)};
    const int count = channels.count();
    Acc value[kPixelGroup] = {};
    const bool inside = tile.left + column < p.output_width && !is_erased_here() &&
                        uncovered(p, tile, row, column) < static_cast<Acc>(1);
    filter_group<mode>(p, tile, row, column, inside, first, count, scratch, value);
    const Acc out = uncovered(p, tile, row, column);
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      value[c] = blend_fill(value[c], tile.values.fill[value_index(p, first + c)], out);
    }
    if (p.color_steps > 0) {
      color_group(p, tile.plan, p.color_steps, static_cast<int>(p.channels), value);
    }
    finish_group(p, tile.values, channels, is_erased_here(), value);
    const PixelOutput output =
        pixel_output(output_layout(p), tile.words, tile.index, tile.top + row, tile.left + column);
    store_group(p, output, channels, value, scratch->column);
  }
}

template <class T, Interpolation mode, bool integers>
__global__ void __launch_bounds__(kFilterThreads, 4)
    augment_filter(const __grid_constant__ AugmentParams p, const TileGrid grid,
                   const int64_t first) {
  using Acc = typename Accumulate<T>::type;
  __shared__ FilterTile<T, integers> tile;
  __shared__ FilterScratch<Acc> scratch[kFilterThreads / kWarp];
  constexpr SampleKind kMine = integers ? SampleKind::kIntegers : SampleKind::kUpright;
  const TileAt at = tile_at(grid, first + blockIdx.x);
  if (kind_of(p.samples[at.sample]) != kMine) return;
  prepare_filter<mode>(p, grid, at, &tile);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  constexpr int kPieces = kTileWidth / kWarp;  // of a row
  for (int piece = warp; piece < kPieces * kFilterRows; piece += kFilterThreads / kWarp) {
    const int row = piece / kPieces, column = piece % kPieces * kWarp;
    if (tile.top + row >= p.output_height || tile.left + column >= p.output_width) continue;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    filter_pixel_at<mode>(p, tile, row, column + lane, &scratch[warp]);
  }
}

template <class T, Interpolation mode, bool integers>
void filter_as(const AugmentParams& p, void* stream) {
  const TileGrid grid = tile_grid(p.batch, p.output_height, p.output_width, kFilterRows);
  each_grid(grid.count, [&](int64_t first, dim3 blocks) {
    launch(augment_filter<T, mode, integers>, blocks, dim3(kFilterThreads), 0, stream, p, grid,
           first);
  });
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_filter(const AugmentParams& p, void* stream) {
  if (may_have(p, SampleKind::kUpright)) {
    with_element_type(p.dtype, [&](auto* element) {
      filter_as<std::remove_pointer_t<decltype(element)>, mode, false>(p, stream);
    });
  }
  if (p.dtype == DType::kUInt8 && p.integers && may_have(p, SampleKind::kIntegers)) {
    filter_as<uint8_t, mode, true>(p, stream);
  }
}

}  // namespace visops

template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kLanczos>(
    const visops::AugmentParams&, void*);
