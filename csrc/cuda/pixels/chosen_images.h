// Kernels on some images of a batch, which travel by value.
#pragma once

#include "core/pixels/adjust.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// What a block has of a plane, an image or a channel of one: pixels [begin, end).
struct PixelPart {
  int64_t plane, begin, end;
};

// Part `i` of planes of which each has `parts`, of kSize pixels.
template <int kSize>
__device__ PixelPart pixel_part(int64_t i, int64_t parts, int64_t pixels) {
  const int64_t plane = i / parts, begin = (i - plane * parts) * kSize;
  return {plane, begin, begin + kSize < pixels ? begin + kSize : pixels};
}

// Calls start() for the images of the batch whose operation is_mine(operation), once as many of
// them as `images` has room for are there. `make(i)` is what stands for image i.
template <class Images, class IsMine, class Make, class Start>
void for_chosen_images(const AdjustParams& p, Images& images, const IsMine& is_mine,
                       const Make& make, const Start& start) {
  constexpr int32_t kMost = sizeof(images.image) / sizeof(images.image[0]);
  images.count = 0;
  for (int64_t i = 0; i < p.batch; ++i) {
    if (!is_mine(p.operations[i])) continue;
    images.image[images.count++] = make(i);
    if (images.count == kMost) {
      start();
      images.count = 0;
    }
  }
  if (images.count > 0) start();
}

}  // namespace
}  // namespace visops
