// The launches of one-pass augmentation, for one interpolation each.
//
// Their kernels take minutes to compile, so each launch is instantiated in a file of its own
// (csrc/cuda/warp/augment/). All interpolations are in it: nvcc compresses a file's kernels
// together, and these are much alike. The slot is part of the name because a test build links these
// files twice: compiled for the GPU, and as plain C++.
#pragma once

#include "core/warp/augment.h"
#include "cuda/pixel_gradient.h"

namespace visops {

// with_mode(), and Lanczos.
template <class Call>
void with_augment_mode(Interpolation mode, const Call& call) {
  if (mode == Interpolation::kLanczos) {
    call(std::integral_constant<Interpolation, Interpolation::kLanczos>());
  } else {
    with_mode(mode, call);
  }
}

// Writes p.samples.
template <Slot slot>
void launch_augment_samples(const AugmentParams& p, void* stream);

// A batch or list, but for the samples that the next two take. All three want p.samples.
template <Slot slot, Interpolation mode>
void launch_augment_forward(const AugmentParams& p, void* stream);

// With antialias, the samples whose maps are upright.
template <Slot slot, Interpolation mode>
void launch_augment_filter(const AugmentParams& p, void* stream);

// Those of them that are filtered in integers; launch_augment_filter() calls it.
template <Slot slot, Interpolation mode>
void launch_augment_filter_integers(const AugmentParams& p, void* stream);

// With antialias, the samples whose maps are not.
template <Slot slot, Interpolation mode>
void launch_augment_filter_rotated(const AugmentParams& p, void* stream);

// The gradient's, of a batch. All want p.samples and `segments` (augment_positions.h), whose
// numbers are float64 for float64 images, else float32; so are those of `grad_sampled` ([batch,
// channels, output_height, output_width]; or null), which is written.
template <Slot slot, Interpolation mode>
void launch_augment_backward_rows(const AugmentBackwardParams& b, const void* segments,
                                  void* grad_sampled, void* stream);

template <Slot slot, Interpolation mode>
void launch_augment_backward_rows_color(const AugmentBackwardParams& b, const void* segments,
                                        void* stream);

}  // namespace visops
