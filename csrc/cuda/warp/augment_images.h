// The images of a launch of augment_samples().
#pragma once

#include "core/warp/augment_segment.h"
#include "cuda/launch.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kListImages = 5;  // few, so that tests see several launches
#else
constexpr int kListImages = 32;
#endif

// A whole batch, or part of a list.
struct LaunchImages {
  int64_t first, count;             // samples
  AugmentImage image[kListImages];  // of a list
  __device__ AugmentImage at(const AugmentParams& p, int64_t sample) const {
    return p.list == nullptr ? augment_image(p, sample) : image[sample - first];
  }
};
static_assert(sizeof(AugmentParams) + sizeof(LaunchImages) <= 4096,
              "parameters of a launch that every driver takes");

// launch_images(images), for a batch or for each part of a list.
template <class Launch>
void each_launch(const AugmentParams& p, const Launch& launch_images) {
  LaunchImages images = {};
  images.count = p.batch;
  if (p.list == nullptr) return launch_images(images);
  for (; images.first < p.batch; images.first += kListImages) {
    const int64_t left = p.batch - images.first;
    images.count = left < kListImages ? left : kListImages;
    for (int64_t i = 0; i < images.count; ++i) images.image[i] = p.list[images.first + i];
    launch_images(images);
  }
}

}  // namespace
}  // namespace visops
