#include "cuda/warp/augment_forward.h"

template void visops::launch_augment_forward<visops::kCudaSlot, visops::Interpolation::kNearest>(
    const visops::AugmentParams&, void*);
