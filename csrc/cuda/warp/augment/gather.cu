#include "cuda/warp/augment_gather.h"

template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kNearest>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kLanczos>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
