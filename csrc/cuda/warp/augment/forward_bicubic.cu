#include "cuda/warp/augment_forward.h"

template void visops::launch_augment<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const AugmentParams&, void*);
