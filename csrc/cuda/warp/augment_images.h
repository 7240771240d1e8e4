// The images of a launch of the augmentation kernels.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kListImages = 5;  // few, so that tests see several launches
#elif CUDART_VERSION >= 12010
constexpr int kListImages = 512;  // parameters take 32,764 bytes
#else
constexpr int kListImages = 32;  // parameters take 4,096 bytes
#endif

// The images of one launch: a whole batch, or part of a list.
struct BatchImages {
  static constexpr int64_t first = 0;
  __device__ AugmentImage at(const AugmentParams& p, int64_t sample) const {
    return augment_image(p, sample);
  }
};

struct ListedImages {
  int64_t first;  // sample that image[0] belongs to
  AugmentImage image[kListImages];
  __device__ AugmentImage at(const AugmentParams&, int64_t sample) const {
    return image[sample - first];
  }
};

// launch_images(images, count), for each part of a list.
template <class Launch>
void each_list(const AugmentParams& p, const Launch& launch_images) {
  ListedImages images = {};
  for (; images.first < p.batch; images.first += kListImages) {
    const int64_t left = p.batch - images.first;
    const int64_t count = left < kListImages ? left : kListImages;
    for (int64_t i = 0; i < count; ++i) images.image[i] = p.list[images.first + i];
    launch_images(images, count);
  }
}

}  // namespace
}  // namespace visops
