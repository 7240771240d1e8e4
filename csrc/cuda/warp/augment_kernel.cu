// The one-pass augmentation on CUDA.
//
// NOTE [ Augment forward on CUDA ]
// Strategy: NOTE [ Tall tiles ]. A first kernel computes what a sample's pixels have in common, a
// thread a sample: the inversion of its matrix in float64 takes more registers than anything else,
// and thousands of cycles for which a tile's other threads would wait. A tile then has its own
// copy in shared memory, with the segments of its rows and the colour matrices. Every thread works
// in float32 (float64 for float64 images): one coordinate and one set of weights for up to four
// channels, which stay in registers through sampling, colour and output. More channels go in groups
// of four; they have no colour.
//
// Lists: a list's images lie anywhere and have any size, so each needs a descriptor. Descriptors
// travel by value in the first kernel's parameters, up to kListImages per launch: a ragged batch
// needs no copy to the device, no buffer that outlives the call, and no synchronization.
//
// antialias: samples that it filters have kernels of their own. Which take which is known on the
// device only, unless the caller says what kinds there are. Each kernel that may have work is
// launched for all tiles, and its blocks return where the sample is another's. A sample of a kind
// that there should not be has no kernel: the first one, which finds that, makes its pixels 0.
// Upright maps share sums between pixels: NOTE [ Upright filter on CUDA ]. Others don't: NOTE
// [ Rotated filter on CUDA ].
//
// Split: a block a tile, in several launches if they are too many for a grid. Pixels share nothing;
// the result does not depend on the split.
//
// Memory: as in NOTE [ Affine forward on CUDA ], writes of planar output coalesce, and a warp
// gathers interleaved output of 2 to 4 channels in shared memory and writes whole words.
//
// Rounding: NOTE [ One augmented pixel ], without contraction (-fmad=false): the bits of the CPU
// kernels, except for NaN payloads. antialias of uint8 without rotation is computed in the same
// integers (core/warp/augment_pixel.h).
//
// Assumes from check_augment(): sizes below 2^31, at most 4 channels with colour, values for 1
// channel or for all. It does not assume sensible matrices, windows, colours or rectangles: a
// matrix without an inverse, or an empty window, makes the sample `fill`.
#include <cstring>

#include "core/dispatch/workspace.h"
#include "core/warp/augment_group.h"
#include "core/warp/augment_segment.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_modes.h"

namespace visops {
namespace {

// The images of a launch of augment_samples().

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kListImages = 5;  // few, so that tests see several launches
#else
constexpr int kListImages = 32;
#endif

// A whole batch, or part of a list.
struct LaunchImages {
  int64_t first, count;             // samples
  AugmentImage image[kListImages];  // of a list
  __device__ AugmentImage at(const AugmentParams& p, int64_t sample) const {
    return p.list == nullptr ? augment_image(p, sample) : image[sample - first];
  }
};

static_assert(sizeof(AugmentParams) + sizeof(LaunchImages) <= 4096,
              "parameters of a launch that every driver takes");

// launch_images(images), for a batch or for each part of a list.
template <class Launch>
void each_launch(const AugmentParams& p, const Launch& launch_images) {
  LaunchImages images = {};
  images.count = p.batch;
  if (p.list == nullptr) return launch_images(images);
  for (; images.first < p.batch; images.first += kListImages) {
    const int64_t left = p.batch - images.first;
    images.count = left < kListImages ? left : kListImages;
    for (int64_t i = 0; i < images.count; ++i) images.image[i] = p.list[images.first + i];
    launch_images(images);
  }
}

constexpr int kSampleThreads = kWarp;  // few, so that a batch spreads over many multiprocessors

// Slowly, by one thread: no caller should need it.
__device__ void clear_sample(const AugmentParams& p, int64_t sample) {
  const int64_t bytes = element_size(p.output_dtype), area = p.output_height * p.output_width;
  const Strides& stride = p.output_stride;
  for (int64_t i = 0; i < p.channels * area; ++i) {
    const int64_t channel = i / area, row = i % area / p.output_width, column = i % p.output_width;
    const int64_t at = sample * stride.batch + channel * stride.channel + row * stride.row +
                       column * stride.column;
    for (int64_t k = 0; k < bytes; ++k) static_cast<char*>(p.output)[at * bytes + k] = 0;
  }
}

__global__ void __launch_bounds__(kSampleThreads)
    augment_samples(const __grid_constant__ AugmentParams p,
                    const __grid_constant__ LaunchImages images) {
  const int64_t stride = int64_t{gridDim.x} * kSampleThreads;
  for (int64_t i = int64_t{blockIdx.x} * kSampleThreads + threadIdx.x; i < images.count;
       i += stride) {
    const int64_t sample = images.first + i;
    // Blocks copy samples whole; compute-sanitizer would take their padding for a mistake.
    memset(static_cast<void*>(&p.samples[sample]), 0, sizeof(AugmentSample));
    const AugmentSample found = augment_sample(p, sample, images.at(p, sample));
    if (p.antialias && !may_have(p, kind_of(found))) clear_sample(p, sample);
    p.samples[sample] = found;
  }
}

void augment_cuda(const AugmentParams& given, Workspace& workspace) {
  AugmentParams p = given;
  if (p.channels == 0) return;
  void* const stream = workspace.stream();
  p.samples = allocate<AugmentSample>(workspace, p.batch);
  launch_augment_samples<kCudaSlot>(p, stream);
  with_augment_mode(p.mode, [&](auto mode) {
    if constexpr (mode.value != Interpolation::kNearest) {
      if (p.antialias) {
        launch_augment_filter<kCudaSlot, mode.value>(p, stream);
        if (may_have(p, SampleKind::kRotated)) {
          launch_augment_filter_rotated<kCudaSlot, mode.value>(p, stream);
        }
      }
    }
    if (may_have(p, SampleKind::kPlain)) {
      launch_augment_forward<kCudaSlot, tap_mode(mode.value)>(p, stream);
    }
  });
}

const bool registered = augment_stub.set(kCudaSlot, augment_cuda);

}  // namespace

template <Slot slot>
void launch_augment_samples(const AugmentParams& p, void* stream) {
  each_launch(p, [&](const LaunchImages& images) {
    launch(augment_samples, grid_for(parts_of(images.count, kSampleThreads)), dim3(kSampleThreads),
           0, stream, p, images);
  });
}

template void launch_augment_samples<kCudaSlot>(const AugmentParams&, void*);
}  // namespace visops
