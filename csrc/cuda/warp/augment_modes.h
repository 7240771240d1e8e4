// The launches of one-pass augmentation, for one interpolation each.
//
// Their kernels take minutes to compile, so each launch and interpolation is instantiated in a file
// of its own (csrc/cuda/warp/augment/). The slot is part of the name because a test build links
// these files twice: compiled for the GPU, and as plain C++.
#pragma once

#include <type_traits>

#include "core/warp/augment.h"

namespace visops {

template <Slot slot, Interpolation mode>
void launch_augment_batch(const AugmentParams& p, void* stream);

template <Slot slot, Interpolation mode>
void launch_augment_list(const AugmentParams& p, void* stream);

// `grad_sampled` ([batch, channels, output_height, output_width], float64 for float64 images, else
// float32; or null) is written.
template <Slot slot, Interpolation mode>
void launch_augment_pull(const AugmentBackwardParams& b, void* grad_sampled, void* stream);

template <Slot slot, Interpolation mode>
void launch_augment_pull_color(const AugmentBackwardParams& b, void* stream);

// call(mode) with the interpolation as a compile-time constant.
template <class Call>
void with_mode(Interpolation mode, const Call& call) {
  switch (mode) {
    case Interpolation::kNearest:
      return call(std::integral_constant<Interpolation, Interpolation::kNearest>());
    case Interpolation::kBilinear:
      return call(std::integral_constant<Interpolation, Interpolation::kBilinear>());
    case Interpolation::kBicubic:
      return call(std::integral_constant<Interpolation, Interpolation::kBicubic>());
  }
}

}  // namespace visops
