#include "cuda/warp/augment_backward_rows_kernels.h"

template void
visops::launch_augment_backward_rows<visops::kCudaSlot, visops::Interpolation::kNearest>(
    const visops::AugmentBackwardParams&, const void*, void*, void*);
