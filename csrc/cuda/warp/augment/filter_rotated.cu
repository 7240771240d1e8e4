#include "cuda/warp/augment_filter_rotated.h"

template void visops::launch_augment_filter_rotated<
    visops::kCudaSlot, visops::Interpolation::kBilinear>(const visops::AugmentParams&, void*);
template void visops::launch_augment_filter_rotated<
    visops::kCudaSlot, visops::Interpolation::kBicubic>(const visops::AugmentParams&, void*);
template void visops::launch_augment_filter_rotated<
    visops::kCudaSlot, visops::Interpolation::kLanczos>(const visops::AugmentParams&, void*);
