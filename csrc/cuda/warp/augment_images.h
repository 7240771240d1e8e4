// The images of a launch of the augmentation kernels.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kListImages = 5;  // few, so that tests see several launches
#else
constexpr int kListImages = 32;
#endif

// The images of one launch: a whole batch, or part of a list. One type for both, since kernels of
// their own would be a twentieth of the library.
struct LaunchImages {
  int64_t first;                    // sample that image[0] belongs to
  AugmentImage image[kListImages];  // of a list
  __device__ AugmentImage at(const AugmentParams& p, int64_t sample) const {
    return p.list == nullptr ? augment_image(p, sample) : image[sample - first];
  }
};
static_assert(sizeof(AugmentParams) + sizeof(LaunchImages) + sizeof(TileGrid) <= 4096,
              "parameters of a launch that every driver takes");

// launch_images(images, count), for a batch or for each part of a list.
template <class Launch>
void each_launch(const AugmentParams& p, const Launch& launch_images) {
  LaunchImages images = {};
  if (p.list == nullptr) return launch_images(images, p.batch);
  for (; images.first < p.batch; images.first += kListImages) {
    const int64_t left = p.batch - images.first;
    const int64_t count = left < kListImages ? left : kListImages;
    for (int64_t i = 0; i < count; ++i) images.image[i] = p.list[images.first + i];
    launch_images(images, count);
  }
}

}  // namespace
}  // namespace visops
