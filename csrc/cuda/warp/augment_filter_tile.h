// What a block knows about its tile where maps are upright, in shared memory: NOTE [ Upright filter
// on CUDA ] (cuda/warp/augment_filter_walk.h).
#pragma once

#include <type_traits>

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_store.h"

namespace visops {
namespace {

constexpr int kLeastFilterRows = 16, kMostFilterRows = 31;  // of a tile; it is kTileWidth wide
constexpr int kFilterThreads = 256;
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr bool kHoldsLittle = true;  // so that tests see tiles in several walks
constexpr int kPairs = 4;
#else
constexpr bool kHoldsLittle = false;
constexpr int kPairs = 64;
#endif

// The types and sizes of a kernel. `integers`: of uint8 samples that are filtered in integers.
template <class Element, Interpolation filter, bool in_integers>
struct FilterOf {
  using T = Element;
  using Acc = typename Accumulate<T>::type;
  using Sum = std::conditional_t<in_integers, int32_t, Acc>;     // of tap rows
  using Column = std::conditional_t<in_integers, int16_t, Acc>;  // a sum of all of them
  using Weight = Column;
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr Interpolation kMode = filter;
  static constexpr bool kIntegers = in_integers;
  static constexpr bool kBytes = sizeof(T) == 1;
  static constexpr int kParts = int{sizeof(Word)} / int{sizeof(T)};  // elements of a word
  static constexpr int kOpen = 2 * static_cast<int>(filter_reach(filter)) + 1;
  static constexpr int kWords = kParts > 1 ? 1 : sizeof(T) == 4 ? 4 : 2;  // of a thread, at most
  static constexpr int kBlockWords = kFilterThreads * kWords;
  static constexpr int kElements = kBlockWords * kParts;
  static constexpr int kHeldBytes = sizeof(T) == 4 ? 24 * 1024 : 16 * 1024;
  static constexpr int kHeld = kHoldsLittle ? 2 * kElements : kHeldBytes / int{sizeof(Column)};
  // Tap columns whose weights are kept.
  static constexpr int kWeights = in_integers ? kMostIntegerTaps : 128 / int{sizeof(Acc)};
};

// A column of output pixels: what its pixels share. In float32 it has seven words, an odd number,
// so that the lines of a warp's lanes begin in different banks of shared memory.
template <class Acc>
struct FilterColumn {
  FilterTaps<Acc> taps;  // none where the window doesn't reach
  Acc cover;             // by the window, along this axis
  float unit;            // of its sums in integers
};

static_assert(sizeof(FilterColumn<float>) / sizeof(float) % 2 == 1, "an odd number of words");

template <class Acc>
struct FilterRow {
  SegmentAxis<Acc> axis;
  FilterTaps<Acc> taps;
  Acc cover;
  int shift;           // of its sums in integers
  int64_t first, end;  // tap rows, without those whose weight is 0, from the image's first row on

  // The last of some pairs of rows that this row needs, and the first one; the pairs begin at row
  // `begin`. A row without taps has a pair, too.
  __device__ int64_t last_pair(int64_t begin) const {
    return ((end > first ? end - 1 : first) - begin) / 2;
  }
  __device__ int64_t first_pair(int64_t begin) const { return (first - begin) / 2; }
};

// Two rows of the source, one below the other.
template <class F>
struct RowPair {
  static constexpr int kTapBits = 16;
  struct alignas(16) Offsets {
    int64_t of[2];  // in bytes
  } offset;
  struct Weights {
    alignas(2 * sizeof(typename F::Weight)) typename F::Weight of[2];
  };
  // What the open rows need, read at once.
  struct alignas(16) Rows {
    Weights weight[F::kOpen];
    // Bit 2 i + j: row i has row j as a tap; in integers, where adding 0 does no harm, nobody asks.
    // The bits above: how many rows, the first of the open ones, have all their taps after these.
    uint32_t taps_and_closed;
  } open;
  static_assert(2 * F::kOpen <= kTapBits, "a bit for each tap");

  __device__ static int closed(const Rows& rows) {
    return static_cast<int>(rows.taps_and_closed >> kTapBits);
  }
};

// How the elements of a source row lie that a walk reads: in runs of neighbours, one of all
// channels' elements if they are interleaved, else one for each channel.
struct FilterRuns {
  int count, step;  // of runs; of a run's elements from column to column
  int words;        // of a run
  int skipped;      // elements of a run's first word that lie before the first column's
  int32_t first;    // column
  int32_t columns;
  bool adjoin;   // a run's elements lie side by side
  bool aligned;  // and so that they are read in whole words

  // Where in the image the column of a run's element lies.
  template <class Tile>
  __device__ int64_t column(const AugmentParams& p, const Tile& tile, int element) const {
    return filter_index(tile.x, tile.sample.x, p.padding, first + element / step);
  }

  // Whether a run's elements from `begin` on, as many as a word has, are read at once.
  template <class Tile>
  __device__ bool has_whole(const Tile& tile, int begin, int parts) const {
    const int size = columns * step;
    const int from = begin > 0 ? begin : 0, end = begin + parts < size ? begin + parts : size;
    const int64_t origin = tile.x.origin + this->first;
    const int64_t place = origin * step + begin, width = tile.sample.image.width * step;
    // Where no word begins, words before and behind are read, too.
    const int before = aligned ? 0 : parts - 1, behind = aligned ? parts : 2 * parts;
    return adjoin && origin + from / step >= tile.sample.x.first &&
           origin + (end - 1) / step <= tile.sample.x.last && place >= before &&
           place + behind <= width;
  }
};

// What a block knows about its tile, and what its threads tell each other.
template <class F>
struct FilterTile {
  using Acc = typename F::Acc;
  int64_t index;  // of the sample
  int32_t left, top;
  int columns, rows;  // in the output
  bool flipped;       // rows are walked from the last to the first
  bool erased;        // some rectangle reaches into the tile
  bool words;         // OutputLayout::writes_words()
  AugmentSample sample;
  SegmentAxis<Acc> x;
  FilterColumn<Acc> column[kTileWidth];
  FilterRow<Acc> row[kMostFilterRows];  // as they are walked
  typename F::Weight column_weight[F::kWeights][kTileWidth];
  int16_t row_weight[F::kIntegers ? kMostFilterRows : 1][kMostIntegerTaps];
  ColorPlan<Acc> plan;
  ChannelValues<Acc> values;
  union {
    RowPair<F> pair[kPairs + 1];                       // of a walk
    uint64_t staged[kFilterThreads / kWarp][kStaged];  // once it is over
  };
  alignas(16) typename F::Column held[F::kHeld];  // sums of tap rows, a line for each row
  Acc carried[kMostFilterRows][kPixelGroup];      // the sums of a pixel that takes several walks
  bool reads_parts[kFilterThreads / kWarp];       // some word of this warp isn't read as it lies
  // Where the elements of a thread's word lie that are read one by one; -1 for none.
  alignas(16) int32_t element[F::kParts > 1 ? F::kElements : 1];

  // Where a row lies, as it is walked, below the tile's first.
  __device__ int output_row(int row) const { return flipped ? rows - 1 - row : row; }
};

static_assert(sizeof(FilterTile<FilterOf<uint8_t, Interpolation::kBilinear, false>>) <= 48 * 1024,
              "what a block may have");

// The weight of a row's tap; `k` counts from the image's first row on.
template <class F>
__device__ inline typename F::Weight row_weight(const FilterTile<F>& tile, int row, int64_t k) {
  const auto& line = tile.row[row];
  const auto tap = static_cast<int32_t>(k - line.axis.origin);
  if constexpr (F::kIntegers) {
    return tile.row_weight[row][tap - line.taps.first];
  } else {
    return filter_tap<F::kMode>(line.taps, tap) * line.taps.norm;
  }
}

// One thread's column of the tile, or row.
template <class F>
__device__ inline void prepare_line(const AugmentParams& p, bool is_column, int index,
                                    FilterTile<F>* tile) {
  using Acc = typename F::Acc;
  constexpr Interpolation kMode = F::kMode;
  const AugmentSample& s = tile->sample;
  AugmentMap map = s.map;
  map.perspective = false;  // known, and the compiler sees it
  const AugmentSegment<Acc> segment =
      augment_segment<Acc>(map, tile->left - tile->left % kSegment,
                           tile->top + (is_column ? 0 : tile->output_row(index)));
  const AxisWindow& window = is_column ? s.x : s.y;
  SegmentAxis<Acc> axis;  // as of segment_axes(), but for the other one
  set_axis_widths(s, window, is_column ? segment.width_x : segment.width_y, &axis);
  position_axis(window, is_column ? segment.x : segment.y, &axis);
  const int lane = is_column ? tile->left % static_cast<int>(kSegment) + index : 0;
  const LanePoint<Acc> point = lane_point(segment, lane);
  const Acc centre = is_column ? point.x : point.y;
  FilterTaps<Acc> taps = filter_taps<kMode>(axis, p.padding, centre);
  const Acc cover = edge_cover(axis, centre);
  const bool covered = !blends_edge(p, s) || cover > static_cast<Acc>(0);
  IntegerTaps in_integers = {};
  if constexpr (F::kIntegers) {
    // A weight depends on those before it, so one thread computes all of a line.
    in_integers = is_column ? integer_columns<kMode>(taps) : integer_rows<kMode>(taps);
    IntegerTaps t = in_integers;
    for (int32_t i = 0; i < taps.count; ++i) {
      const auto weight = static_cast<int16_t>(next_weight<kMode>(taps, i, &t));
      (is_column ? tile->column_weight[i][index] : tile->row_weight[index][i]) = weight;
    }
  }
  if (is_column) {
    if (index == 0) tile->x = axis;
    if (!covered) taps.count = 0;
    tile->column[index] = {taps, cover, F::kIntegers ? integer_unit<kMode>(in_integers) : 0.0f};
    return;
  }
  int64_t first = axis.origin + taps.first, end = covered ? first + taps.count : first;
  tile->row[index] = {axis, taps, cover, in_integers.shift, first, end};
  if constexpr (F::kBytes) {
    while (first < end && row_weight(*tile, index, first) == 0) ++first;
    while (first < end && row_weight(*tile, index, end - 1) == 0) --end;
    tile->row[index].first = first;
    tile->row[index].end = end;
  }
}

// Called by all threads of the block, and synchronizes them. The first thread does the sample, two
// warps a column a thread, one a row a thread, the others rectangles, numbers and colours.
template <class F>
__device__ inline void prepare_filter(const AugmentParams& p, const TileGrid& grid,
                                      const TileAt& at, FilterTile<F>* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    const int64_t columns = p.output_width - at.x, rows = p.output_height - at.y;
    tile->index = at.sample;
    tile->left = at.x;
    tile->top = at.y;
    tile->columns = columns < kTileWidth ? static_cast<int>(columns) : kTileWidth;
    tile->rows = rows < grid.height ? static_cast<int>(rows) : grid.height;
    tile->sample = p.samples[at.sample];
    tile->flipped = tile->sample.map.m[4] < 0.0;
  } else {
    prepare_beside_sample(p, grid, at, kFilterThreads, tile);
  }
  __syncthreads();  // the sample is there
  if (thread < kTileWidth) {
    prepare_line(p, true, thread, tile);
  } else if (thread - kTileWidth < tile->rows) {
    prepare_line(p, false, thread - kTileWidth, tile);
  }
  __syncthreads();  // all lines are there
  if constexpr (!F::kIntegers) {
    for (int i = thread; i < F::kWeights * kTileWidth; i += kFilterThreads) {
      const auto& taps = tile->column[i % kTileWidth].taps;
      const int tap = i / kTileWidth;
      if (tap >= taps.count) continue;
      tile->column_weight[tap][i % kTileWidth] =
          filter_tap<F::kMode>(taps, taps.first + tap) * taps.norm;
    }
    // A walk has a barrier before they are read.
  }
}

}  // namespace
}  // namespace visops
