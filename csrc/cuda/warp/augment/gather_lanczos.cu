#include "cuda/warp/augment_gather.h"

template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kLanczos>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
