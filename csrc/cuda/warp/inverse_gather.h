// How a thread gathers the gradient of a source pixel by the inverse of an affine map.
//
// NOTE [ Image gradient by the inverse map ]
// NOTE [ Image gradient by tiles ] (gather.h) serves every map and padding. Most samples are
// easier: the map is affine, neither enlarges much nor reduces much, and no tap is folded onto the
// tile. Then the output pixels with taps on a source pixel lie in a parallelogram of a few pixels,
// and the thread of that source pixel walks through it in raster order: the order of a single
// scattering thread, so the sums have the bits of the CPU kernel.
//
// The source position of such an output pixel differs from the source pixel by at most `reach`
// along each axis: half a pixel for nearest, 1 for bilinear, 2 for bicubic. So the inverse map
// bounds the rows of the parallelogram, and in each row the two axes bound the columns. The bounds
// are in float32, relative to the tile, and a little wide: what they hold are candidates, some
// three in two of those that count for bilinear. A candidate's taps are computed exactly as
// NOTE [ Affine coordinates ] says, and compared with the pixel.
//
// A warp has patches of 8 x 4 source pixels. Their candidates lie close together under any
// rotation, and their 8 columns fill a sector of memory. Eight neighbouring lanes have 4 x 2 of
// them. A sample, or a tile of it, that is not served is left to the tiles' kernel; so is one where
// a thread would have hundreds of candidates, one after the other.
//
// NOTE [ Staged gradients ]
// An output pixel is a candidate of some six source pixels. So where taps are bilinear, a block
// takes its tile in parts of 16 x 16 pixels, and first copies to shared memory what the candidates
// of a part have: their taps, each computed once, and their gradients. At a scale of 1 and
// 45 degrees, these lie in a box of 26 x 26 pixels. How many rows and columns a pixel's own
// candidates can span is the map's alone, 3 x 3 at a scale of 1 under any rotation: a thread takes
// as many from where its own begin, and leaves those that have no tap on its pixel. These are more
// than a parallelogram holds, but rows have no bounds, and no lane waits for others that have more.
// Where the output is larger than that, threads compute taps as they go.
#pragma once

#include "core/warp/affine.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"
#include "cuda/tally.h"
#include "cuda/warp/gather.h"
#include "cuda/warp/inner_pixels.h"
#include "cuda/warp/register_select.h"

namespace visops {
namespace {

constexpr double kMostStep = 64;          // source pixels between neighbours of the output
constexpr double kMostReach = 16;         // rows, and columns, from a source pixel's centre
constexpr double kMostCandidates = 256;   // of a source pixel
constexpr double kBoundSlack = 1.0 / 64;  // far more than the bounds' rounding, in output pixels
constexpr double kSteep = 64;             // columns a row, beyond which an axis bounds no columns

constexpr auto kSegmentWidth = static_cast<uint32_t>(kSegment);
constexpr int kPatchWidth = kGatherWidth / kGatherWarps, kPatchHeight = kRun / kPatchWidth;
static_assert(kPatchWidth == 8 && kPatchHeight == 4, "lanes are numbered so");

constexpr int kPartSide = 16;  // of the parts of a tile that are staged
constexpr int kParts = kGatherWidth / kPartSide, kPatchesAcross = kPartSide / kPatchWidth;
static_assert(kGatherHeight == kPartSide, "parts lie side by side");

constexpr int kAcross = 3;  // rows, and columns, that the candidates of a pixel span at most
// Those of a part then span less than 25.5, of its 15 and of the pixel's, and rounding may add one.
constexpr int kMostSide = (kPartSide - 1) * kAcross / 2 + kAcross + 2;
constexpr int kStagedTaps = kMostSide * (kMostSide + 7);

VISOPS_FN int32_t at_least(int32_t i, int32_t least) { return i > least ? i : least; }
VISOPS_FN int32_t at_most(int32_t i, int32_t most) { return i < most ? i : most; }

// How far the position of an output pixel with taps on a source pixel is from it.
VISOPS_FN constexpr double tap_reach(Interpolation mode) {
  return mode == Interpolation::kNearest ? 0.5 : mode == Interpolation::kBilinear ? 1.0 : 2.0;
}

// One axis of the source: where in a row of the output it equals the pixel's, and what is near it.
struct ColumnBound {
  float slope;  // columns that this place moves in a row
  float reach;  // columns to both sides
};

// What the candidates of a staged part span, from where its corner lies.
struct PartBounds {
  float left, top, right, bottom;
  int32_t rows;            // that the candidates of a pixel span at most; 0: no part is staged
  Divisor<int32_t> width;  // columns of a part, at most
  int32_t pitch;           // staged taps from a row to the next
};

// Where the candidates of a source pixel lie.
struct CandidateBounds {
  float xx, xy, yx, yy;  // the inverse map, without its translation
  float rows, columns;   // to both sides
  ColumnBound by_x, by_y;
  PartBounds part;
};

struct InverseMap {
  double m[6];  // source to destination
  CandidateBounds bounds;
  bool usable;
};

// `step` and `down` are what the axis changes by in a column and in a row of the output.
VISOPS_FN ColumnBound column_bound(double step, double down, double reach, double columns) {
  const double slope = step != 0.0 ? -down / step : 2.0 * kSteep;
  if (!(fabs(slope) <= kSteep)) return {0.0f, static_cast<float>(columns)};
  return {static_cast<float>(slope),
          static_cast<float>(reach / fabs(step) + kBoundSlack * (1.0 + fabs(slope)))};
}

// Whether 32 bits hold the tap of every pixel that is in a segment of the output.
VISOPS_FN bool has_small_taps(double step, double down, double from, double width, double height) {
  return fabs(step) * (width + kSegment) + fabs(down) * height + fabs(from) < kInnerLimit;
}

VISOPS_FN InverseMap inverse_map(const AffineParams& p, const AffineMap& map) {
  InverseMap inverse = {};
  const double* const m = map.m;
  const auto width = static_cast<double>(p.output_width);
  const auto height = static_cast<double>(p.output_height);
  inverse.usable = map.valid && !is_singular(m) &&
                   has_small_offsets(p.output_height, p.output_width, p.output_stride.row,
                                     p.output_stride.column) &&
                   has_small_taps(m[0], m[1], m[2], width, height) &&
                   has_small_taps(m[3], m[4], m[5], width, height);
  for (const int i : {0, 1, 3, 4}) inverse.usable = inverse.usable && fabs(m[i]) <= kMostStep;
  if (!inverse.usable) return inverse;
  invert_affine(m, inverse.m);
  const double reach = tap_reach(effective_mode(p, map));
  const double x = reach + coordinate_slack(m[0]), y = reach + coordinate_slack(m[3]);
  const double columns = fabs(inverse.m[0]) * x + fabs(inverse.m[1]) * y + kBoundSlack;
  const double rows = fabs(inverse.m[3]) * x + fabs(inverse.m[4]) * y + kBoundSlack;
  inverse.usable = columns <= kMostReach && rows <= kMostReach &&
                   4.0 * rows * columns <= kMostCandidates && all_finite(inverse.m);
  inverse.bounds = {static_cast<float>(inverse.m[0]),
                    static_cast<float>(inverse.m[1]),
                    static_cast<float>(inverse.m[3]),
                    static_cast<float>(inverse.m[4]),
                    static_cast<float>(rows),
                    static_cast<float>(columns),
                    column_bound(m[0], m[1], x, columns),
                    column_bound(m[3], m[4], y, columns),
                    {}};
  return inverse;
}

// How many rows, or columns, of the output an interval of this length holds at most.
VISOPS_FN int32_t most_within(double length) { return static_cast<int32_t>(floor(length)) + 1; }

// Taps of 16 bytes in as many banks, eight at a time: of 4 x 2 source pixels, which lie in 4 x 2
// columns and rows of the output, or 2 x 4 if the map is steep. At 45 degrees it matters which way
// the rows go.
VISOPS_FN int32_t staged_pitch(const double inverse[6], int32_t width) {
  const bool steep = fabs(inverse[3]) > 0.5 * fabs(inverse[0]);
  const int32_t beyond = !steep ? 4 : inverse[0] * inverse[3] < 0.0 ? 6 : 2;
  return (width - beyond + 7) / 8 * 8 + beyond;
}

// For a usable map; empty where its parts are not staged.
VISOPS_FN PartBounds part_bounds(const AffineParams& p, const InverseMap& map) {
  const double rows = map.bounds.rows, columns = map.bounds.columns;
  const double* const inverse = map.m;
  const double span = kPartSide - 1;
  const double left = columns - fmin(span * inverse[0], 0.0) - fmin(span * inverse[1], 0.0);
  const double right = columns + fmax(span * inverse[0], 0.0) + fmax(span * inverse[1], 0.0);
  const double top = rows - fmin(span * inverse[3], 0.0) - fmin(span * inverse[4], 0.0);
  const double bottom = rows + fmax(span * inverse[3], 0.0) + fmax(span * inverse[4], 0.0);
  const int32_t own_rows = most_within(2.0 * rows), own_columns = most_within(2.0 * columns);
  if (own_rows > kAcross || own_columns > kAcross || p.output_height < own_rows ||
      p.output_width < kAcross) {
    return {};
  }
  const int32_t width = at_least(most_within(left + right) + 1, kAcross);
  return {static_cast<float>(left),
          static_cast<float>(top),
          static_cast<float>(right),
          static_cast<float>(bottom),
          own_rows,
          divisor_of<int32_t>(width),
          staged_pitch(inverse, width)};
}

// The source pixel in a corner of this block's tile.
struct TileCorner {
  int32_t x, y;
};

__device__ inline TileCorner tile_corner(const GatherPlan& plan) {
  const auto tile = static_cast<int32_t>(blockIdx.x);
  return {tile % plan.tile_columns * kGatherWidth, tile / plan.tile_columns * kGatherHeight};
}

// Whether a tile is gathered so. Other paddings than constant fold taps: replicate onto the border
// alone.
__device__ inline bool serves_tile(const AffineParams& p, const InverseMap& inverse,
                                   const TileCorner& tile) {
  if (!inverse.usable || p.padding == Padding::kConstant) return inverse.usable;
  return p.padding == Padding::kReplicate && tile.x > 0 && tile.y > 0 &&
         tile.x + kGatherWidth < p.width && tile.y + kGatherHeight < p.height;
}

// A SegmentOrigin in 32 bits, which one load brings.
template <class Acc>
struct __align__(16) NearOrigin {
  int32_t x, y;
  Acc fx, fy;
};

template <class Acc>
__device__ inline NearOrigin<Acc> in_32_bits(const SegmentOrigin<Acc>& origin) {
  return {static_cast<int32_t>(origin.x), static_cast<int32_t>(origin.y), origin.fx, origin.fy};
}

// A candidate's weight along one axis on the source index `at`; false: it has no tap there.
template <Interpolation mode, class Acc>
__device__ inline bool weight_on(int32_t at, int32_t origin, Acc fraction, Acc step, Acc lane,
                                 Acc* weight) {
  constexpr bool kNearest = mode == Interpolation::kNearest;
  const Acc local = step * lane + fraction;
  const Acc position = kNearest ? local + static_cast<Acc>(0.5) : local;
  const int32_t whole = floor_to_int(position);
  const auto tap = static_cast<uint32_t>(at - (origin + whole) - first_tap(mode));
  Acc weights[tap_count(mode)];
  tap_weights<mode>(kNearest ? static_cast<Acc>(0) : position - static_cast<Acc>(whole), weights);
  if constexpr (mode == Interpolation::kBicubic) {
    *weight = pick(weights, static_cast<int>(tap));
  } else {
    *weight = tap == 0 ? weights[0] : weights[tap_count(mode) - 1];
  }
  return tap < static_cast<uint32_t>(tap_count(mode));
}

// This thread's first pixel in the tile; the next ones are `step` rows below each other.
struct PatchPixel {
  int x, y, step;
};

// If warps lie `across` side by side.
__device__ inline PatchPixel patch_pixel(int across) {
  const auto warp = static_cast<int>(threadIdx.x / kRun);
  const auto lane = static_cast<int>(threadIdx.x % kRun);
  const int x = lane / 8 % 2 * 4 + lane % 4, y = lane / 16 * 2 + lane / 4 % 2;
  return {warp % across * kPatchWidth + x, warp / across * kPatchHeight + y,
          kGatherWarps / across * kPatchHeight};
}

// The candidates of a part of a tile: pixels of the output from (x, y) on. Unless there are none,
// there are `rows` rows and kAcross columns, which a thread takes.
struct CandidateBox {
  int32_t x, y, width, height, rows, pitch;
};

// The taps of a candidate, from the tile's corner, and its gradient in the first channel.
struct alignas(16) StagedTap {
  uint32_t place;  // the first tap, as packed()
  float x, y;      // the fractions
  float gradient;
};

// Places less than 2^15 apart: their difference tells those of both numbers. Candidates lie
// that near: kMostReach bounds how far they are from the part's middle, and kMostStep what that is
// in source pixels.
__device__ inline uint32_t packed(int32_t x, int32_t y) {
  return static_cast<uint32_t>(y) * 65536u + static_cast<uint32_t>(x);
}

constexpr int kPhoto = 3;  // channels

struct Stage {
  StagedTap tap[kStagedTaps];
  float other[kStagedTaps][kPhoto - 1];  // gradients in the other channels
};

// A place between the pixels of the output.
struct OutputPlace {
  float x, y;
};

// A block's tile and the candidates of its pixels. Rows and columns are those of the output.
template <class Acc>
class InverseTile {
 public:
  const TileCorner corner;

  // What a row of the source is in the output.
  __device__ OutputPlace row_step() const { return {bounds_.xy, bounds_.yy}; }
  // The columns of a part, at most.
  __device__ const Divisor<int32_t>& part_width() const { return bounds_.part.width; }
  __device__ bool is_staged() const { return bounds_.part.rows > 0; }

  // `origins` are those of the sample: [output_height, segments].
  __device__ InverseTile(const GatherPlan& plan, const AffineMap& map, const InverseMap& inverse,
                         const TileCorner& at, const NearOrigin<Acc>* origins)
      : corner(at),
        bounds_(inverse.bounds),
        origins_(origins),
        segments_(plan.segments),
        width_(plan.output_width),
        height_(plan.output_height),
        step_x_(static_cast<Acc>(map.m[0])),
        step_y_(static_cast<Acc>(map.m[3])) {
    const double x = at.x, y = at.y;
    const double* const m = inverse.m;
    const double far = kInnerLimit;  // no output goes there
    const double column = fmax(-far, fmin(m[0] * x + (m[1] * y + m[2]), far));
    const double row = fmax(-far, fmin(m[3] * x + (m[4] * y + m[5]), far));
    column_ = static_cast<int32_t>(floor(column));
    row_ = static_cast<int32_t>(floor(row));
    rest_x_ = static_cast<float>(column - column_);
    rest_y_ = static_cast<float>(row - row_);
  }

  // use(column, row, weight) for each output pixel that has a tap on the tile's source pixel
  // (dx, dy), in raster order.
  template <Interpolation mode, class Use>
  __device__ VISOPS_ALWAYS_INLINE void each_tap(int dx, int dy, const Use& use) const {
    const auto [at_x, at_y] = place_of(dx, dy);
    int32_t row = at_least(row_ - floor_to_int(bounds_.rows - at_y), 0);
    const int32_t last_row = at_most(row_ + floor_to_int(at_y + bounds_.rows), height_ - 1);
    int32_t column = 0, last = -1;
    const NearOrigin<Acc>* origins = origins_;
    while (true) {
      for (; column > last; ++row) {
        if (row > last_row) return;
        const float below = static_cast<float>(row - row_) - at_y;
        const float by_x = at_x + bounds_.by_x.slope * below;
        const float by_y = at_x + bounds_.by_y.slope * below;
        const float low = fmaxf(by_x - bounds_.by_x.reach, by_y - bounds_.by_y.reach);
        const float high = fminf(by_x + bounds_.by_x.reach, by_y + bounds_.by_y.reach);
        column = at_least(column_ - floor_to_int(-low), 0);
        last = at_most(column_ + floor_to_int(high), width_ - 1);
        origins = origins_ + int64_t{row} * segments_;
      }
      tally();
      const auto unsigned_column = static_cast<uint32_t>(column);
      const NearOrigin<Acc> origin = origins[unsigned_column / kSegmentWidth];
      const Acc lane = from_centre<Acc>(static_cast<int>(unsigned_column % kSegmentWidth));
      Acc across, along;
      const bool on_x = weight_on<mode>(corner.x + dx, origin.x, origin.fx, step_x_, lane, &across);
      const bool on_y = weight_on<mode>(corner.y + dy, origin.y, origin.fy, step_y_, lane, &along);
      if (on_x & on_y) use(column, row - 1, along * across);
      ++column;
    }
  }

  // Where a pixel of the tile lies in the output, from where its corner does.
  __device__ OutputPlace place_of(int dx, int dy) const {
    const auto right = static_cast<float>(dx), down = static_cast<float>(dy);
    return {bounds_.xx * right + bounds_.xy * down + rest_x_,
            bounds_.yx * right + bounds_.yy * down + rest_y_};
  }

  // The candidates of the part that begins `left` columns from the corner.
  __device__ CandidateBox candidates(int left) const {
    const auto right = static_cast<float>(left);
    const float x = bounds_.xx * right + rest_x_, y = bounds_.yx * right + rest_y_;
    const int32_t first_x = at_least(column_ - floor_to_int(bounds_.part.left - x), 0);
    const int32_t first_y = at_least(row_ - floor_to_int(bounds_.part.top - y), 0);
    const int32_t end_x = at_most(column_ + floor_to_int(x + bounds_.part.right) + 1, width_);
    const int32_t end_y = at_most(row_ + floor_to_int(y + bounds_.part.bottom) + 1, height_);
    CandidateBox box;
    box.rows = bounds_.part.rows;
    box.pitch = bounds_.part.pitch;
    box.x = at_most(first_x, width_ - kAcross);
    box.y = at_most(first_y, height_ - box.rows);
    box.width = at_least(end_x - box.x, kAcross);
    box.height = at_least(end_y - box.y, box.rows);
    if (first_x >= end_x || first_y >= end_y) box.rows = box.height = 0;
    return box;
  }

  // use(tap) for the output pixels of a column, from row `first` on, every `step`-th of them.
  template <class Use>
  __device__ VISOPS_ALWAYS_INLINE void each_tap_of_column(int32_t column, int32_t first,
                                                          int32_t end, int32_t step,
                                                          const Use& use) const {
    const auto unsigned_column = static_cast<uint32_t>(column);
    const Acc lane = from_centre<Acc>(static_cast<int>(unsigned_column % kSegmentWidth));
    const Acc across = step_x_ * lane, down = step_y_ * lane;
    const NearOrigin<Acc>* origins =
        origins_ + int64_t{first} * segments_ + unsigned_column / kSegmentWidth;
    for (int32_t row = first; row < end; row += step, origins += step * segments_) {
      const NearOrigin<Acc> origin = *origins;
      const Acc x = across + origin.fx, y = down + origin.fy;
      const int32_t whole_x = floor_to_int(x), whole_y = floor_to_int(y);
      use(StagedTap{packed(origin.x + whole_x - corner.x, origin.y + whole_y - corner.y),
                    x - static_cast<Acc>(whole_x), y - static_cast<Acc>(whole_y), 0.0f});
    }
  }

  // As each_tap(), for bilinear taps of a part whose candidates are staged, and the source pixel
  // `own`, as packed(), at `at`: use(i, gradient, weight) with the first channel's gradient, where
  // `i` is the number of a tap.
  template <class Use>
  __device__ VISOPS_ALWAYS_INLINE void each_staged(const CandidateBox& box, const StagedTap* taps,
                                                   uint32_t own, const OutputPlace& at,
                                                   const Use& use) const {
    const int32_t column = at_least(column_ - box.x - floor_to_int(bounds_.columns - at.x), 0);
    const int32_t row = at_least(row_ - box.y - floor_to_int(bounds_.rows - at.y), 0);
    int first =
        at_most(row, box.height - box.rows) * box.pitch + at_most(column, box.width - kAcross);
    const auto take = [&](int i) {
      StagedTap together[kAcross];
      for (int j = 0; j < kAcross; ++j) together[j] = taps[i + j];
      for (int j = 0; j < kAcross; ++j) {
        tally();
        const StagedTap& tap = together[j];
        const uint32_t which = own - tap.place;  // 1 for the right taps, 65536 for the lower ones
        if ((which & ~65537u) != 0) continue;
        const float across = (which & 1u) != 0 ? tap.x : 1.0f - tap.x;
        const float along = which >= 65536u ? tap.y : 1.0f - tap.y;
        use(i + j, tap.gradient, along * across);
      }
    };
    if (box.rows == kAcross) {
      for (int k = 0; k < kAcross; ++k) take(first + k * box.pitch);
    } else {
#pragma unroll 1
      for (int k = 0; k < box.rows; ++k, first += box.pitch) take(first);
    }
  }

 private:
  const CandidateBounds bounds_;  // a copy, in registers
  const NearOrigin<Acc>* const origins_;
  const int32_t segments_, width_, height_;
  const Acc step_x_, step_y_;
  // Where the corner lies in the output: a pixel, and what is left.
  int32_t column_, row_;
  float rest_x_, rest_y_;
};

}  // namespace
}  // namespace visops
