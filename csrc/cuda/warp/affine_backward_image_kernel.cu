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
#include "core/warp/affine.h"
#include "cuda/launch.h"
#include "cuda/pixel_gradient.h"
#include "cuda/warp/gather.h"
#include "cuda/warp/inverse_gather.h"

namespace visops {
namespace {

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
      if (band == 0) {
        if (s.inverse.usable) s.inverse.bounds.part = part_bounds(b.forward, s.inverse);
        places.samples[sample] = s;
      }
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
  const PatchPixel first = patch_pixel(kGatherWarps);
  const int32_t x = tile.corner.x + first.x;
  for (int dy = first.y; dy < kGatherHeight; dy += first.step) {
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

// gather(channel, count) for all channels, three at a time and then one by one.
template <class Gather>
__device__ void each_channels(int64_t channels, const Gather& gather) {
  int64_t channel = 0;
  for (; channels - channel >= kPhoto; channel += kPhoto) {
    gather(channel, std::integral_constant<int, kPhoto>());
  }
  for (; channel < channels; ++channel) gather(channel, std::integral_constant<int, 1>());
}

template <Interpolation mode, class T, class Acc>
__device__ void gather_tile(const AffineBackwardImageParams& b, const InverseTile<Acc>& tile,
                            int64_t sample) {
  each_channels(b.forward.channels, [&](int64_t channel, auto count) {
    gather_channels<mode, count.value, T>(b, tile, sample, channel);
  });
}

// Copies what the candidates of a part have to shared memory: a thread has one of the columns, and
// as many rows at once as there are threads for.
template <int kChannels, class T>
__device__ void stage_candidates(const AffineBackwardImageParams& b, const InverseTile<float>& tile,
                                 const CandidateBox& box, int64_t sample, int64_t channel,
                                 Stage* stage) {
  const Divisor<int32_t> width = tile.part_width();
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t row = width.divide(thread), rows = width.divide(kGatherThreads);
  const int32_t column = thread - row * width.value;
  if (column >= box.width || row >= at_most(rows, box.height)) return;
  const Strides& from = b.forward.output_stride;
  const auto row_stride = static_cast<int32_t>(from.row);
  const auto column_stride = static_cast<int32_t>(from.column);
  const T* at = static_cast<const T*>(b.forward.output) + sample * from.batch +
                channel * from.channel + (box.y + row) * row_stride +
                (box.x + column) * column_stride;
  int i = row * box.pitch + column;
  const auto put = [&](StagedTap tap) {
    float gradient[kChannels];
    for (int c = 0; c < kChannels; ++c) {
      const T element = load_readonly(at + c * from.channel);
      gradient[c] = load_element(&element);
    }
    tap.gradient = gradient[0];
    stage->tap[i] = tap;
    for (int c = 1; c < kChannels; ++c) stage->other[i][c - 1] = gradient[c];
    at += rows * from.row;
    i += rows * box.pitch;
  };
  tile.each_tap_of_column(box.x + column, box.y + row, box.y + box.height, rows, put);
}

// The gradient of the part of a tile that begins `left` columns from its corner. Called by all
// threads of the block, which synchronise here.
template <int kChannels, class T>
__device__ void gather_part(const AffineBackwardImageParams& b, const InverseTile<float>& tile,
                            int left, int64_t sample, int64_t channel, Stage* stage) {
  const AffineParams& p = b.forward;
  const Strides& to = b.grad_image_stride;
  const CandidateBox box = tile.candidates(left);
  __syncthreads();  // all threads have read the last part
  stage_candidates<kChannels, T>(b, tile, box, sample, channel, stage);
  __syncthreads();  // it is there
  const PatchPixel first = patch_pixel(kPatchesAcross);
  const int dx = left + first.x;
  const int32_t x = tile.corner.x + dx, y = tile.corner.y + first.y;
  if (x >= p.width) return;
  uint32_t own = packed(dx, first.y);
  OutputPlace at = tile.place_of(dx, first.y);
  float* out = static_cast<float*>(b.grad_image) + sample * to.batch + channel * to.channel +
               y * to.row + x * to.column;
  const int rows = at_most(p.height - tile.corner.y, kGatherHeight);
  for (int dy = first.y; dy < rows; dy += first.step) {
    float sum[kChannels] = {};
    tile.each_staged(box, stage->tap, own, at, [&](int i, float gradient, float weight) {
      sum[0] += weight * gradient;
      for (int c = 1; c < kChannels; ++c) sum[c] += weight * stage->other[i][c - 1];
    });
    for (int c = 0; c < kChannels; ++c) out[c * to.channel] = sum[c];
    own += packed(0, first.step);
    at.x += first.step * tile.row_step().x;
    at.y += first.step * tile.row_step().y;
    out += first.step * to.row;
  }
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
  if (s.map.integral) return gather_tile<Interpolation::kNearest, T>(b, tile, sample);
  if constexpr (mode == Interpolation::kBilinear && sizeof(Acc) == sizeof(float)) {
    __shared__ Stage stage;
    if (tile.is_staged()) {
      for (int part = 0; part < kParts; ++part) {
        each_channels(b.forward.channels, [&](int64_t channel, auto count) {
          gather_part<count.value, T>(b, tile, part * kPartSide, sample, channel, &stage);
        });
      }
      return;
    }
  }
  gather_tile<mode, T>(b, tile, sample);
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
