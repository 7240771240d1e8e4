#include "cuda/warp/augment_filter.h"

template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kLanczos>(
    const visops::AugmentParams&, void*);
