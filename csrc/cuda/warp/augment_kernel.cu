// The one-pass augmentation on CUDA.
//
// NOTE [ Augment forward on CUDA ]
// Strategy: NOTE [ Tall tiles ]. Each tile prepares its sample in shared memory once (an inversion
// in float64, the segments of the tile's rows, the colour matrices). Every thread then works in
// float32 (float64 for float64 images): one coordinate and one set of weights for up to four
// channels, which stay in registers through sampling, colour and output. More channels go in groups
// of four; they have no colour.
//
// Lists: a list's images lie anywhere and have any size, so each needs a descriptor. Descriptors
// travel by value in the kernel's parameters, up to kListImages per launch: a ragged batch needs no
// copy to the device, no buffer that outlives the call, and no synchronization.
//
// antialias: shrinking without rotation is left to NOTE [ Upright filter on CUDA ]
// (cuda/warp/augment_filter.h), which shares sums between pixels. Other maps share nothing: each
// pixel goes through its own taps, and computes a weight for each.
//
// Split: blocks stride over the tiles of all samples, so any size fits any grid. Pixels share
// nothing; the result does not depend on the split.
//
// Memory: as in NOTE [ Affine forward on CUDA ], writes of planar output coalesce, and a warp
// gathers interleaved output of 2 to 4 channels in shared memory and writes whole words.
//
// Rounding: NOTE [ One augmented pixel ], without contraction (-fmad=false): the bits of the CPU
// kernels, except for NaN payloads. antialias of uint8 without rotation is computed in the same
// integers (core/warp/augment_integers.h).
//
// Assumes from check_augment(): sizes below 2^31, at most 4 channels with colour, values for 1
// channel or for all. It does not assume sensible matrices, windows, colours or rectangles: a
// matrix without an inverse, or an empty window, makes the sample `fill`.
#include "cuda/launch.h"
#include "cuda/warp/augment_modes.h"

namespace visops {
namespace {

void augment_cuda(const AugmentParams& p, void* stream) {
  if (p.channels == 0) return;
  with_mode(p.mode, [&](auto mode) {
    if constexpr (mode.value != Interpolation::kNearest) {
      if (p.antialias) launch_augment_filter<kCudaSlot, mode.value>(p, stream);
    }
    launch_augment_forward<kCudaSlot, mode.value>(p, stream);
  });
}

const bool registered = augment_stub.set(kCudaSlot, augment_cuda);

}  // namespace
}  // namespace visops
