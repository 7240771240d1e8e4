// NOTE [ Affine image gradient on CUDA ]
// NOTE [ Image gradient by the inverse map ] (inverse_gather.h) where that serves a tile, and
// NOTE [ Image gradient by tiles ] (gather.h) elsewhere, with the maps and segments of
// NOTE [ Affine coordinates ]. Maps are on the device: the kernels of both start, and their blocks
// look which one a tile is for.
//
// Rounding: NOTE [ One pixel ], without contraction (-fmad=false), so the bits are the CPU's.
//
// Assumes from check_affine(): sizes below 2^31, floating types, a gradient in float32 (float64 for
// float64). It does not assume a finite or regular matrix: with another, a sample's gradient is
// zero.
#include "core/warp/affine_gradient.h"
#include "core/warp/affine_pixel.h"
#include "cuda/launch.h"
#include "cuda/tally.h"
#include "cuda/warp/gather.h"
#include "cuda/warp/inner_pixels.h"
#include "cuda/warp/register_select.h"
#include "cuda/with_mode.h"

namespace visops {
namespace {

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
// rotation, and their 8 columns fill a sector of memory. A sample, or a tile of it, that is not
// served is left to the tiles' kernel; so is one where a thread would have hundreds of candidates,
// one after the other.

constexpr double kMostStep = 64;          // source pixels between neighbours of the output
constexpr double kMostReach = 16;         // rows, and columns, from a source pixel's centre
constexpr double kMostCandidates = 256;   // of a source pixel
constexpr double kBoundSlack = 1.0 / 64;  // far more than the bounds' rounding, in output pixels
constexpr double kSteep = 64;             // columns a row, beyond which an axis bounds no columns

// How far the position of an output pixel with taps on a source pixel is from it.
VISOPS_FN constexpr double tap_reach(Interpolation mode) {
  return mode == Interpolation::kNearest ? 0.5 : mode == Interpolation::kBilinear ? 1.0 : 2.0;
}

// One axis of the source: where in a row of the output it equals the pixel's, and what is near it.
struct ColumnBound {
  float slope;  // columns that this place moves in a row
  float reach;  // columns to both sides
};

// Where the candidates of a source pixel lie.
struct CandidateBounds {
  float xx, xy, yx, yy;  // the inverse map, without its translation
  float rows;            // to both sides
  ColumnBound by_x, by_y;
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
                    column_bound(m[0], m[1], x, columns),
                    column_bound(m[3], m[4], y, columns)};
  return inverse;
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

constexpr auto kSegmentWidth = static_cast<uint32_t>(kSegment);
constexpr int kPatchWidth = kGatherWidth / kGatherWarps, kPatchHeight = kRun / kPatchWidth;

// This thread's first pixel in the tile; the next ones are kPatchHeight below each other.
struct PatchPixel {
  int x, y;
};

__device__ inline PatchPixel patch_pixel() {
  const int warp = static_cast<int>(threadIdx.x) / kRun;
  const int lane = static_cast<int>(threadIdx.x) % kRun;
  return {warp * kPatchWidth + lane % kPatchWidth, lane / kPatchWidth};
}

__device__ inline int32_t at_least_0(int32_t i) { return i > 0 ? i : 0; }
__device__ inline int32_t at_most(int32_t i, int32_t most) { return i < most ? i : most; }

// A block's tile and the candidates of its pixels. Rows and columns are those of the output.
template <class Acc>
class InverseTile {
 public:
  const TileCorner corner;

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
    const auto right = static_cast<float>(dx), down = static_cast<float>(dy);
    const float at_x = bounds_.xx * right + bounds_.xy * down + rest_x_;
    const float at_y = bounds_.yx * right + bounds_.yy * down + rest_y_;
    int32_t row = at_least_0(row_ - floor_to_int(bounds_.rows - at_y));
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
        column = at_least_0(column_ - floor_to_int(-low));
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

 private:
  const CandidateBounds bounds_;  // a copy, in registers
  const NearOrigin<Acc>* const origins_;
  const int32_t segments_, width_, height_;
  const Acc step_x_, step_y_;
  // Where the corner lies in the output: a pixel, and what is left.
  int32_t column_, row_;
  float rest_x_, rest_y_;
};

struct AffineSample {
  AffineMap map;
  InverseMap inverse;
};

// Elements are converted as they are loaded, so that half types take no kernels of their own.
template <Interpolation given, class Number>
struct AffineGather {
  using Acc = Number;
  using Sample = AffineSample;
  using Segment = SegmentOrigin<Acc>;
  union Lists {
    TapLists<given, Acc> taps;
    TapLists<Interpolation::kNearest, Acc> copies;
  };

  const AffineBackwardImageParams& b;

  // Also where the other kernel serves all tiles.
  __device__ bool is_blank(const Sample& s) const {
    return !s.map.valid || (s.inverse.usable && b.forward.padding == Padding::kConstant);
  }
  __device__ static bool is_nearest(const Sample& s) {
    return given == Interpolation::kNearest || s.map.integral;
  }

  __device__ void add_reach(const Sample& s, const Segment& segment, int32_t x, int32_t,
                            SourceBox* box) const {
    const int lane = static_cast<int>(x % kSegment);
    if (is_nearest(s)) {
      add_taps(pixel_taps<Interpolation::kNearest>(b.forward, s.map, segment, lane), box);
    } else {
      add_taps(pixel_taps<given>(b.forward, s.map, segment, lane), box);
    }
  }

  template <Interpolation mode>
  __device__ TileMask list_taps(const Sample& s, const Segment& segment, int32_t x, int32_t,
                                int32_t left, int32_t top, int i,
                                TapLists<mode, Acc>& lists) const {
    const PixelTaps<mode, Acc> taps =
        pixel_taps<mode>(b.forward, s.map, segment, static_cast<int>(x % kSegment));
    lists.put(i, taps);
    return {tap_mask(taps.x, left, kGatherWidth), tap_mask(taps.y, top, kGatherHeight)};
  }

  __device__ Acc incoming(int64_t sample, int64_t channel, int32_t y, int32_t x) const {
    const Strides& stride = b.forward.output_stride;
    const int64_t i =
        sample * stride.batch + channel * stride.channel + y * stride.row + x * stride.column;
    if constexpr (sizeof(Acc) == sizeof(float)) {
      if (b.forward.dtype == DType::kFloat16) return load_as<Half>(i);
      if (b.forward.dtype == DType::kBFloat16) return load_as<BFloat16>(i);
    }
    return load_as<Acc>(i);
  }

  __device__ Acc* gradient_at(int64_t sample, int64_t channel, int32_t y, int32_t x) const {
    const Strides& stride = b.grad_image_stride;
    return static_cast<Acc*>(b.grad_image) + sample * stride.batch + channel * stride.channel +
           y * stride.row + x * stride.column;
  }

 private:
  template <class T>
  __device__ Acc load_as(int64_t i) const {
    const T element = load_readonly(static_cast<const T*>(b.forward.output) + i);
    return load_element(&element);
  }
};

// What the first kernel leaves for the others.
template <class Acc>
struct AffinePlaces {
  AffineSample* samples;          // [batch]
  SegmentOrigin<Acc>* origins;    // [batch, output_height, segments]
  NearOrigin<Acc>* near_origins;  // the same, of samples with a usable inverse
};

template <class Warp, class Acc>
__global__ void __launch_bounds__(kGatherThreads, 8)
    affine_backward_image_boxes(const __grid_constant__ AffineBackwardImageParams b,
                                const __grid_constant__ GatherPlan plan,
                                const GatherScratch<Warp> scratch, const AffinePlaces<Acc> places) {
  __shared__ AffineSample s;
  find_boxes(Warp{b}, plan, scratch, [&](int64_t sample, int64_t band) -> const AffineSample& {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
      memset(&s, 0, sizeof(s));  // what lies between its numbers is copied, too
      s.map = affine_map(b.forward, sample);
      s.inverse = inverse_map(b.forward, s.map);
      if (band == 0) places.samples[sample] = s;
    }
    __syncthreads();
    const int64_t y0 = band * kBandRows, count = band_rows(plan, band) * plan.segments;
    for (int64_t i = thread; i < count; i += kGatherThreads) {
      const int64_t row = i / plan.segments, k = i - row * plan.segments;
      const int64_t at = (sample * plan.output_height + y0) * plan.segments + i;
      const auto origin = segment_origin<Acc>(s.map.m, k * kSegment, y0 + row);
      places.origins[at] = origin;
      if (s.inverse.usable) places.near_origins[at] = in_32_bits(origin);
    }
    return s;
  });
}

template <class Warp, class Acc>
__global__ void __launch_bounds__(kGatherThreads, sizeof(Acc) == 8 ? 4 : 8)
    affine_backward_image(const __grid_constant__ AffineBackwardImageParams b,
                          const __grid_constant__ GatherPlan plan,
                          const GatherScratch<Warp> scratch, const int64_t first_sample) {
  __shared__ GatherShared<Acc> shared;
  __shared__ typename Warp::Lists lists;
  const Warp warp{b};
  const int64_t sample = first_sample + blockIdx.y;
  const AffineSample& s = scratch.sample[sample];
  if (serves_tile(b.forward, s.inverse, tile_corner(plan))) return;
  if (warp.is_nearest(s)) {
    GatherTile(warp, plan, scratch, sample, shared, lists.copies).run();
  } else {
    GatherTile(warp, plan, scratch, sample, shared, lists.taps).run();
  }
}

// The gradient of a tile, in kChannels channels from `channel` on: this thread's pixels.
template <Interpolation mode, int kChannels, class T, class Acc>
__device__ void gather_channels(const AffineBackwardImageParams& b, const InverseTile<Acc>& tile,
                                int64_t sample, int64_t channel) {
  const AffineParams& p = b.forward;
  const Strides &from = p.output_stride, &to = b.grad_image_stride;
  const auto row_stride = static_cast<int32_t>(from.row);
  const auto column_stride = static_cast<int32_t>(from.column);
  const T* const incoming =
      static_cast<const T*>(p.output) + sample * from.batch + channel * from.channel;
  const PatchPixel first = patch_pixel();
  const int32_t x = tile.corner.x + first.x;
  for (int dy = first.y; dy < kGatherHeight; dy += kPatchHeight) {
    const int32_t y = tile.corner.y + dy;
    if (x >= p.width || y >= p.height) return;
    Acc sum[kChannels] = {};
    tile.template each_tap<mode>(first.x, dy, [&](int32_t column, int32_t row, Acc weight) {
      const int32_t at = row * row_stride + column * column_stride;
      for (int c = 0; c < kChannels; ++c) {
        const T element = load_readonly(incoming + c * from.channel + at);
        sum[c] += weight * static_cast<Acc>(load_element(&element));
      }
    });
    Acc* const out = static_cast<Acc*>(b.grad_image) + sample * to.batch + channel * to.channel +
                     y * to.row + x * to.column;
    for (int c = 0; c < kChannels; ++c) out[c * to.channel] = sum[c];
  }
}

template <Interpolation mode, class T, class Acc>
__device__ void gather_tile(const AffineBackwardImageParams& b, const InverseTile<Acc>& tile,
                            int64_t sample) {
  constexpr int kPhoto = 3;  // channels
  int64_t channel = 0;
  const int64_t channels = b.forward.channels;
  for (; channels - channel >= kPhoto; channel += kPhoto) {
    gather_channels<mode, kPhoto, T>(b, tile, sample, channel);
  }
  for (; channel < channels; ++channel) gather_channels<mode, 1, T>(b, tile, sample, channel);
}

template <Interpolation mode, class T, class Acc>
__global__ void __launch_bounds__(kGatherThreads, sizeof(Acc) == 8 ? 6 : 8)
    affine_backward_image_inverse(const __grid_constant__ AffineBackwardImageParams b,
                                  const __grid_constant__ GatherPlan plan,
                                  const AffinePlaces<Acc> places, const int64_t first_sample) {
  const int64_t sample = first_sample + blockIdx.y;
  const AffineSample& s = places.samples[sample];
  const TileCorner corner = tile_corner(plan);
  if (!serves_tile(b.forward, s.inverse, corner)) return;
  const InverseTile<Acc> tile(plan, s.map, s.inverse, corner,
                              places.near_origins + sample * plan.output_height * plan.segments);
  if (s.map.integral) {
    gather_tile<Interpolation::kNearest, T>(b, tile, sample);
  } else {
    gather_tile<mode, T>(b, tile, sample);
  }
}

template <Interpolation mode, class T, class Acc>
void backward_image_as(const AffineBackwardImageParams& b, Workspace& workspace) {
  using Warp = AffineGather<mode, Acc>;
  const AffineParams& p = b.forward;
  const GatherPlan plan =
      gather_plan(p.batch, p.channels, p.height, p.width, p.output_height, p.output_width);
  const int64_t segments = p.batch * p.output_height * plan.segments;
  const AffinePlaces<Acc> places = {allocate<AffineSample>(workspace, p.batch),
                                    allocate<SegmentOrigin<Acc>>(workspace, segments),
                                    allocate<NearOrigin<Acc>>(workspace, segments)};
  const GatherScratch<Warp> scratch =
      gather_scratch<Warp>(plan, places.samples, places.origins, workspace);
  const dim3 threads(kGatherThreads);
  void* const stream = workspace.stream();
  launch(affine_backward_image_boxes<Warp, Acc>, grid_for(plan.batch * plan.bands), threads, 0,
         stream, b, plan, scratch, places);
  each_tile(plan, [&](int64_t first, dim3 blocks) {
    launch(affine_backward_image_inverse<mode, T, Acc>, blocks, threads, 0, stream, b, plan, places,
           first);
    launch(affine_backward_image<Warp, Acc>, blocks, threads, 0, stream, b, plan, scratch, first);
  });
}

template <Interpolation mode>
void backward_image_mode(const AffineBackwardImageParams& b, Workspace& workspace) {
  switch (b.forward.dtype) {
    case DType::kFloat16: return backward_image_as<mode, Half, float>(b, workspace);
    case DType::kBFloat16: return backward_image_as<mode, BFloat16, float>(b, workspace);
    case DType::kFloat64: return backward_image_as<mode, double, double>(b, workspace);
    default: return backward_image_as<mode, float, float>(b, workspace);
  }
}

void backward_image_cuda(const AffineBackwardImageParams& b, Workspace& workspace) {
  with_mode(b.forward.mode, [&](auto mode) { backward_image_mode<mode.value>(b, workspace); });
}

const bool registered = affine_image_gradient_stub.set(kCudaSlot, backward_image_cuda);

}  // namespace
}  // namespace visops
