// NOTE [ Affine image gradient on CUDA ]
// NOTE [ Image gradient by tiles ], with the maps and segments of NOTE [ Affine coordinates ].
//
// Rounding: NOTE [ One pixel ], without contraction (-fmad=false), so the bits are the CPU's.
//
// Assumes from check_affine(): sizes below 2^31, floating types, a gradient in float32 (float64 for
// float64). It does not assume a finite or regular matrix: with another, a sample's gradient is
// zero.

#include "core/warp/affine_gradient.h"
#include "core/warp/affine_pixel.h"
#include "cuda/launch.h"
#include "cuda/warp/gather.h"

namespace visops {
namespace {

// Elements are converted as they are loaded, so that half types take no kernels of their own.
template <Interpolation given, class Number>
struct AffineGather {
  using Acc = Number;
  using Sample = AffineMap;
  using Segment = SegmentOrigin<Acc>;
  union Lists {
    TapLists<given, Acc> taps;
    TapLists<Interpolation::kNearest, Acc> copies;
  };

  const AffineBackwardImageParams& b;

  __device__ static bool is_blank(const Sample& map) { return !map.valid; }
  __device__ static bool is_nearest(const Sample& map) {
    return given == Interpolation::kNearest || map.integral;
  }

  __device__ void add_reach(const Sample& map, const Segment& segment, int32_t x, int32_t,
                            SourceBox* box) const {
    const int lane = static_cast<int>(x % kSegment);
    if (is_nearest(map)) {
      add_taps(pixel_taps<Interpolation::kNearest>(b.forward, map, segment, lane), box);
    } else {
      add_taps(pixel_taps<given>(b.forward, map, segment, lane), box);
    }
  }

  template <Interpolation mode>
  __device__ TileMask list_taps(const Sample& map, const Segment& segment, int32_t x, int32_t,
                                int32_t left, int32_t top, int i,
                                TapLists<mode, Acc>& lists) const {
    const PixelTaps<mode, Acc> taps =
        pixel_taps<mode>(b.forward, map, segment, static_cast<int>(x % kSegment));
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

template <class Warp, class Acc>
__global__ void __launch_bounds__(kGatherThreads, 8)
    affine_backward_image_boxes(const __grid_constant__ AffineBackwardImageParams b,
                                const __grid_constant__ GatherPlan plan,
                                const GatherScratch<Warp> scratch, AffineMap* maps,
                                SegmentOrigin<Acc>* origins) {
  __shared__ AffineMap map;
  find_boxes(Warp{b}, plan, scratch, [&](int64_t sample, int64_t band) -> const AffineMap& {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
      map = affine_map(b.forward, sample);
      if (band == 0) maps[sample] = map;
    }
    __syncthreads();
    const int64_t y0 = band * kBandRows, count = band_rows(plan, band) * plan.segments;
    for (int64_t i = thread; i < count; i += kGatherThreads) {
      const int64_t row = i / plan.segments, k = i - row * plan.segments;
      origins[(sample * plan.output_height + y0) * plan.segments + i] =
          segment_origin<Acc>(map.m, k * kSegment, y0 + row);
    }
    return map;
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
  if (warp.is_nearest(scratch.sample[sample])) {
    GatherTile(warp, plan, scratch, sample, shared, lists.copies).run();
  } else {
    GatherTile(warp, plan, scratch, sample, shared, lists.taps).run();
  }
}

template <Interpolation mode, class Acc>
void backward_image_as(const AffineBackwardImageParams& b, Workspace& workspace) {
  using Warp = AffineGather<mode, Acc>;
  const AffineParams& p = b.forward;
  const GatherPlan plan =
      gather_plan(p.batch, p.channels, p.height, p.width, p.output_height, p.output_width);
  auto* const maps = allocate<AffineMap>(workspace, p.batch);
  auto* const origins =
      allocate<SegmentOrigin<Acc>>(workspace, p.batch * p.output_height * plan.segments);
  const GatherScratch<Warp> scratch = gather_scratch<Warp>(plan, maps, origins, workspace);
  launch(affine_backward_image_boxes<Warp, Acc>, grid_for(plan.batch * plan.bands),
         dim3(kGatherThreads), 0, workspace.stream(), b, plan, scratch, maps, origins);
  each_tile(plan, [&](int64_t first, dim3 blocks) {
    launch(affine_backward_image<Warp, Acc>, blocks, dim3(kGatherThreads), 0, workspace.stream(), b,
           plan, scratch, first);
  });
}

template <Interpolation mode>
void backward_image_mode(const AffineBackwardImageParams& b, Workspace& workspace) {
  if (b.forward.dtype == DType::kFloat64) return backward_image_as<mode, double>(b, workspace);
  backward_image_as<mode, float>(b, workspace);
}

void backward_image_cuda(const AffineBackwardImageParams& b, Workspace& workspace) {
  switch (b.forward.mode) {
    case Interpolation::kNearest: return backward_image_mode<Interpolation::kNearest>(b, workspace);
    case Interpolation::kBilinear:
      return backward_image_mode<Interpolation::kBilinear>(b, workspace);
    default: return backward_image_mode<Interpolation::kBicubic>(b, workspace);
  }
}

const bool registered = affine_image_gradient_stub.set(kCudaSlot, backward_image_cuda);

}  // namespace
}  // namespace visops
