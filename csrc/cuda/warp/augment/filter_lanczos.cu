#include "cuda/warp/augment_filter.h"

template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kLanczos>(
    const visops::AugmentParams&, void*);
