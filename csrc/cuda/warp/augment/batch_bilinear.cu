#include "cuda/warp/augment_forward.h"

template void visops::launch_augment_batch<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentParams&, void*);
