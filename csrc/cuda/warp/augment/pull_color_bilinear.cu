#include "cuda/warp/augment_pull_kernels.h"

template void
visops::launch_augment_pull_color<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentBackwardParams&, const void*, void*);
