// NOTE [ Affine image gradient on CUDA ]
// Deterministic: no atomics, and every sum has one order, that of the CPU kernel. The warp's
// transpose scatters each output pixel's gradient to its taps. If many threads scattered at once,
// the additions to a source pixel could come in any order; so this kernel gathers: one thread per
// source pixel and group of four channels looks up the output pixels with a tap on it (NOTE [
// Search of the image gradient ], with its cost) and adds their shares in raster order, an output
// pixel's own taps row by row: exactly the order in which a single scattering thread adds them.
// Blocks are 32 x 4 source pixels and stride over channel groups, tiles and samples.
//
// Rounding: NOTE [ One pixel ], without contraction (-fmad=false), so the bits are the CPU's.
//
// Assumes from check_affine(): sizes below 2^31, floating types, a gradient in float32 (float64 for
// float64). It does not assume a finite or regular matrix: with another, a sample's gradient is
// zero.

#include "core/warp/affine_pixel.h"
#include "cuda/launch.h"
#include "cuda/warp/affine_reach.h"

namespace visops {
namespace {

constexpr int kGatherWidth = 32, kGatherHeight = 4;
constexpr int kGatherThreads = kGatherWidth * kGatherHeight;
constexpr int kGroup = 4;  // channels whose sums a thread keeps at once

// Blocks of work: channel group fastest, then tile column, tile row, sample.
struct GatherGrid {
  int64_t groups, columns, rows, count;
};

// Sums one source pixel over `channels` channels from `grad` on.
template <Interpolation mode, class T, class Acc>
__device__ void gather(const AffineParams& p, const SampleMap& s, const T* grad, int channels,
                       int64_t source_x, int64_t source_y, Acc sum[kGroup]) {
  constexpr int kTaps = tap_count(mode);
  const CandidateSearch<mode> search(p, s, source_x, source_y);
  for (Span rows = search.rows(0); rows.begin < rows.end; rows = search.rows(rows.end)) {
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      SegmentOrigin<Acc> origin;
      int64_t segment = -1;
      for (Span run = search.columns(y, 0); run.begin < run.end; run = search.columns(y, run.end)) {
        for (int64_t x = run.begin; x < run.end; ++x) {
          if (x / kSegment != segment) {
            segment = x / kSegment;
            origin = segment_origin<Acc>(s.map.m, segment * kSegment, y);
          }
          const PixelTaps<mode, Acc> taps =
              pixel_taps<mode>(p, s.map, origin, static_cast<int>(x % kSegment));
          bool on_row = false, on_column = false;
          for (int i = 0; i < kTaps; ++i) {
            on_row = on_row || taps.y.index[i] == source_y;
            on_column = on_column || taps.x.index[i] == source_x;
          }
          if (!on_row || !on_column) continue;
          const T* at = grad + y * p.output_stride.row + x * p.output_stride.column;
          for (int c = 0; c < kGroup; ++c) {
            if (c >= channels) break;
            const T element = load_readonly(at + c * p.output_stride.channel);
            const Acc g = load_element(&element);
            for (int i = 0; i < kTaps; ++i) {
              for (int j = 0; j < kTaps; ++j) {
                if (taps.y.index[i] == source_y && taps.x.index[j] == source_x) {
                  sum[c] += (taps.y.weight[i] * taps.x.weight[j]) * g;
                }
              }
            }
          }
        }
      }
    }
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kGatherThreads, sizeof(T) == 8 ? 3 : 4)
    affine_backward_image(const __grid_constant__ AffineBackwardImageParams b,
                          const GatherGrid grid) {
  using Acc = typename Accumulate<T>::type;
  const AffineParams& p = b.forward;
  __shared__ SampleMap s;
  for (int64_t i = blockIdx.x; i < grid.count; i += gridDim.x) {
    const int64_t tile = i / grid.groups, tile_row = tile / grid.columns;
    const int64_t sample = tile_row / grid.rows;
    if (threadIdx.x == 0) s = sample_map(p, sample);
    __syncthreads();

    const int64_t channel = (i - tile * grid.groups) * kGroup;
    const int64_t x = (tile - tile_row * grid.columns) * kGatherWidth + threadIdx.x % kGatherWidth;
    const int64_t y = (tile_row - sample * grid.rows) * kGatherHeight + threadIdx.x / kGatherWidth;
    if (x < p.width && y < p.height) {
      const int64_t left = p.channels - channel;
      const int channels = left < kGroup ? static_cast<int>(left) : kGroup;
      const T* grad = static_cast<const T*>(p.output) + sample * p.output_stride.batch +
                      channel * p.output_stride.channel;
      Acc sum[kGroup] = {};
      if (s.map.valid) {
        if (mode == Interpolation::kNearest || s.map.integral) {
          gather<Interpolation::kNearest>(p, s, grad, channels, x, y, sum);
        } else {
          gather<mode>(p, s, grad, channels, x, y, sum);
        }
      }
      const Strides& stride = b.grad_image_stride;
      Acc* out = static_cast<Acc*>(b.grad_image) + sample * stride.batch +
                 channel * stride.channel + y * stride.row + x * stride.column;
      for (int c = 0; c < kGroup; ++c) {
        if (c < channels) out[c * stride.channel] = sum[c];
      }
    }
    if (i + gridDim.x < grid.count) __syncthreads();  // before the next sample replaces this one
  }
}

template <class T, Interpolation mode>
void backward_image_as(const AffineBackwardImageParams& b, void* stream) {
  const AffineParams& p = b.forward;
  GatherGrid grid;
  grid.groups = (p.channels + kGroup - 1) / kGroup;
  grid.columns = (p.width + kGatherWidth - 1) / kGatherWidth;
  grid.rows = (p.height + kGatherHeight - 1) / kGatherHeight;
  grid.count = p.batch * grid.rows * grid.columns * grid.groups;
  launch(affine_backward_image<T, mode>, grid_for(grid.count), dim3(kGatherThreads), 0, stream, b,
         grid);
}

template <Interpolation mode>
void backward_image_mode(const AffineBackwardImageParams& b, void* stream) {
  switch (b.forward.dtype) {
    case DType::kFloat16: return backward_image_as<Half, mode>(b, stream);
    case DType::kBFloat16: return backward_image_as<BFloat16, mode>(b, stream);
    case DType::kFloat32: return backward_image_as<float, mode>(b, stream);
    case DType::kFloat64: return backward_image_as<double, mode>(b, stream);
    default: throw std::logic_error("visops.affine_backward_image: no kernel for this dtype");
  }
}

void backward_image_cuda(const AffineBackwardImageParams& b, void* stream) {
  switch (b.forward.mode) {
    case Interpolation::kNearest: return backward_image_mode<Interpolation::kNearest>(b, stream);
    case Interpolation::kBilinear: return backward_image_mode<Interpolation::kBilinear>(b, stream);
    case Interpolation::kBicubic: return backward_image_mode<Interpolation::kBicubic>(b, stream);
  }
}

const bool registered = affine_backward_image_stub.set(kCudaSlot, backward_image_cuda);

}  // namespace
}  // namespace visops
