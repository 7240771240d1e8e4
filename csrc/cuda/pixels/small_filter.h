// Motion blur, emboss and sharpening of images of a batch.
//
// NOTE [ Small filters on CUDA ]
// A thread a pixel: it sums over the taps in their order, as the CPU does (NOTE [ Small filters ],
// core/pixels/small_filter.h), so the bits are the CPU's. Taps travel with their images by value,
// kMostFiltered to a launch; all lanes of a warp read the same one.
#pragma once

#include "core/mirrored.h"
#include "core/parts.h"
#include "core/pixels/adjust.h"
#include "core/pixels/small_filter.h"
#include "cuda/launch.h"
#include "cuda/pixels/chosen_images.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostFiltered = 2;  // so that tests see several launches
constexpr int kFilteredPixels = 512;
#else
constexpr int kMostFiltered = 16;
constexpr int kFilteredPixels = 2048;  // of a block
#endif
constexpr int kFilterThreads = 256;
constexpr int kMostSmallTaps = 33;
static_assert(kMostSmallTaps >= kMostMotionSide && kMostSmallTaps >= 9, "room for all taps");

struct FilteredImage {
  const void* from;  // [channels, height, width]
  void* to;
  float weight[kMostSmallTaps];
  int8_t down[kMostSmallTaps], across[kMostSmallTaps];
  int16_t taps;
  bool clip;
};

using FilteredImages = ChosenImages<FilteredImage, kMostFiltered>;

// A block has kFilteredPixels of a channel.
template <class T>
__global__ void __launch_bounds__(kFilterThreads)
    filter_small(const __grid_constant__ FilteredImages images, const int64_t parts) {
  const int32_t height = images.height, width = images.width;
  for_channel_pixels<T, kFilteredPixels, kFilterThreads>(
      images, parts,
      [&](const FilteredImage& image, const T* from, T* to, int64_t at, int32_t y, int32_t x) {
        float sum = 0.0f;
        for (int k = 0; k < image.taps; ++k) {
          const int64_t row = mirrored(y + image.down[k], height);
          sum += image.weight[k] *
                 load_element(from + row * width + mirrored(x + image.across[k], width));
        }
        if (image.clip && sizeof(T) != 1) sum = clamped(sum, 1.0f);
        store_element(to + at, sum);
      });
}

// The images of the batch whose operation is_small_filter().
template <class T>
void filter_images(const AdjustParams& p, void* stream) {
  const int64_t parts = parts_of(p.pixels(), kFilteredPixels);
  FilteredImages images(p);
  for_chosen_images(
      p, images, [](const PixelOperation& operation) { return is_small_filter(operation.kind); },
      [&](int64_t i) {
        const SmallFilter filter = small_filter(p.operations[i]);
        FilteredImage image = {};
        image.from = static_cast<const T*>(p.images) + i * p.size();
        image.to = static_cast<T*>(p.output) + i * p.size();
        image.taps = static_cast<int16_t>(filter.weights.size());
        image.clip = filter.clip;
        for (size_t k = 0; k < filter.weights.size(); ++k) {
          image.weight[k] = filter.weights[k];
          image.down[k] = static_cast<int8_t>(filter.offsets[2 * k]);
          image.across[k] = static_cast<int8_t>(filter.offsets[2 * k + 1]);
        }
        return image;
      },
      [&] {
        launch(filter_small<T>, grid_for(images.count * images.channels * parts),
               dim3(kFilterThreads), 0, stream, images, parts);
      });
}

}  // namespace
}  // namespace visops
