// Kernels on some images of a batch, which travel by value.
#pragma once

#include "core/pixels/adjust.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// The index of [0, n) that is nearest to i.
__device__ inline int32_t within(int32_t i, int32_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

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

// Images of one size, by value: what stands for each of up to kMost that an operation has chosen.
template <class Image, int kMost>
struct ChosenImages {
  int64_t channels;
  int32_t height, width, count;
  Image image[kMost];

  explicit ChosenImages(const AdjustParams& p)
      : channels(p.channels),
        height(static_cast<int32_t>(p.height)),
        width(static_cast<int32_t>(p.width)),
        count(0),
        image() {}

  VISOPS_DEVICE int64_t pixels() const { return static_cast<int64_t>(height) * width; }
};

// each(image, from, to, pixel, y, x) for the pixels of all channels: a thread a pixel, in rows; a
// block has kPixels of a channel. `from` and `to` are the channel's. Images have from and to.
template <class T, int kPixels, int kThreads, class Images, class Each>
__device__ void for_channel_pixels(const Images& images, int64_t parts, const Each& each) {
  const int64_t pixels = images.pixels();
  for (int64_t i = blockIdx.x; i < images.count * images.channels * parts; i += gridDim.x) {
    const PixelPart part = pixel_part<kPixels>(i, parts, pixels);
    const int64_t number = part.plane / images.channels;
    const auto& image = images.image[number];
    const int64_t first = (part.plane - number * images.channels) * pixels;
    const T* const from = static_cast<const T*>(image.from) + first;
    T* const to = static_cast<T*>(image.to) + first;
    for (int64_t at = part.begin + threadIdx.x; at < part.end; at += kThreads) {
      const int32_t y = static_cast<int32_t>(at) / images.width;
      each(image, from, to, at, y, static_cast<int32_t>(at) - y * images.width);
    }
  }
}

// Calls start() for the images of the batch whose operation is_mine(operation), once as many of
// them as `images` has room for are there, or `most`. `make(i)` is what stands for image i.
template <class Images, class IsMine, class Make, class Start>
void for_chosen_images(const AdjustParams& p, Images& images, const IsMine& is_mine,
                       const Make& make, const Start& start,
                       int64_t most = sizeof(Images::image) / sizeof(Images::image[0])) {
  images.count = 0;
  for (int64_t i = 0; i < p.batch; ++i) {
    if (!is_mine(p.operations[i])) continue;
    images.image[images.count++] = make(i);
    if (images.count == most) {
      start();
      images.count = 0;
    }
  }
  if (images.count > 0) start();
}

}  // namespace
}  // namespace visops
