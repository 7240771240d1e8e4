// antialias where maps are upright, in integers; NOTE [ Upright filter on CUDA ].
#include "cuda/warp/augment_filter_tile.h"
#include "cuda/warp/augment_filter_walk.h"
#include "cuda/warp/augment_modes.h"

namespace visops {

template <Slot slot, Interpolation mode>
void launch_augment_filter_integers(const AugmentParams& p, void* stream) {
  filter_as<FilterOf<uint8_t, mode, true>>(p, stream);
}

}  // namespace visops

template void visops::launch_augment_filter_integers<
    visops::kCudaSlot, visops::Interpolation::kBilinear>(const visops::AugmentParams&, void*);
template void visops::launch_augment_filter_integers<
    visops::kCudaSlot, visops::Interpolation::kBicubic>(const visops::AugmentParams&, void*);
template void visops::launch_augment_filter_integers<
    visops::kCudaSlot, visops::Interpolation::kLanczos>(const visops::AugmentParams&, void*);
