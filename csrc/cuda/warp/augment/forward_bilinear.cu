#include "cuda/warp/augment_forward.h"

template void visops::launch_augment_forward<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentParams&, void*);
