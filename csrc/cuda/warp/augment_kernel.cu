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
// Lists: a list's images lie anywhere and have any size, so each needs a descriptor, which travels
// as NOTE [ Numbers as parameters ] says.
//
// antialias: samples that it filters have kernels of their own. Which take which is known on the
// device only, unless the samples come from the host (core/chain/run/on_device.h), with what kinds
// there are. Each kernel that may have work is launched for all tiles, and its blocks return where
// the sample is another's. Upright maps share sums between pixels: NOTE [ Upright filter on CUDA ].
// Others don't: NOTE [ Rotated filter on CUDA ].
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
#include "cuda/send_words.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_modes.h"

namespace visops {
namespace {

constexpr int kSampleThreads = kWarp;  // few, so that a batch spreads over many multiprocessors

__global__ void __launch_bounds__(kSampleThreads)
    augment_samples(const __grid_constant__ AugmentParams p) {
  const int64_t stride = int64_t{gridDim.x} * kSampleThreads;
  for (int64_t i = int64_t{blockIdx.x} * kSampleThreads + threadIdx.x; i < p.batch; i += stride) {
    // Blocks copy samples whole; compute-sanitizer would take their padding for a mistake.
    memset(static_cast<void*>(&p.samples[i]), 0, sizeof(AugmentSample));
    p.samples[i] = augment_sample(p, i, p.list == nullptr ? augment_image(p, i) : p.list[i]);
  }
}

void augment_cuda(const AugmentParams& given, Workspace& workspace) {
  AugmentParams p = given;
  if (p.channels == 0) return;
  void* const stream = workspace.stream();
  if (p.samples == nullptr) {
    p.samples = allocate<AugmentSample>(workspace, p.batch);
    if (p.list != nullptr) p.list = sent(p.list, p.batch, workspace);
    launch_augment_samples<kCudaSlot>(p, stream);
  }
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
  launch(augment_samples, grid_for(parts_of(p.batch, kSampleThreads)), dim3(kSampleThreads), 0,
         stream, p);
}

template void launch_augment_samples<kCudaSlot>(const AugmentParams&, void*);
}  // namespace visops
