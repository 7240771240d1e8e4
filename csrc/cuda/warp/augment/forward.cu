#include "cuda/warp/augment_forward.h"

template void visops::launch_augment_forward<visops::kCudaSlot, visops::Interpolation::kNearest>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_forward<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_forward<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const visops::AugmentParams&, void*);
