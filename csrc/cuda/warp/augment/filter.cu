// antialias where maps are upright; NOTE [ Upright filter on CUDA ].
#include "core/numbers/element.h"
#include "cuda/warp/augment_filter_tile.h"
#include "cuda/warp/augment_filter_walk.h"
#include "cuda/warp/augment_modes.h"

namespace visops {

template <Slot slot, Interpolation mode>
void launch_augment_filter(const AugmentParams& p, void* stream) {
  if (may_have(p, SampleKind::kUpright)) {
    with_element_type(p.dtype, [&](auto* element) {
      filter_as<FilterOf<std::remove_pointer_t<decltype(element)>, mode, false>>(p, stream);
    });
  }
  if (p.dtype == DType::kUInt8 && p.integers && may_have(p, SampleKind::kIntegers)) {
    launch_augment_filter_integers<slot, mode>(p, stream);
  }
}

}  // namespace visops

template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const visops::AugmentParams&, void*);
template void visops::launch_augment_filter<visops::kCudaSlot, visops::Interpolation::kLanczos>(
    const visops::AugmentParams&, void*);
