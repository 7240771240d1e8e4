#include "cuda/warp/augment_backward_rows_kernels.h"

template void
visops::launch_augment_backward_rows_color<visops::kCudaSlot, visops::Interpolation::kNearest>(
    const visops::AugmentBackwardParams&, const void*, void*);
template void
visops::launch_augment_backward_rows_color<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentBackwardParams&, const void*, void*);
template void
visops::launch_augment_backward_rows_color<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const visops::AugmentBackwardParams&, const void*, void*);
template void
visops::launch_augment_backward_rows_color<visops::kCudaSlot, visops::Interpolation::kLanczos>(
    const visops::AugmentBackwardParams&, const void*, void*);
