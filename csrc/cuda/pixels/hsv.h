// Gains in HSV of images of a batch.
//
// NOTE [ HSV on CUDA ]
// A thread a pixel, with the arithmetic of core/pixels/hsv_values.h, and so the CPU's bits. For
// bytes a block makes the tables first, an entry of each a thread. Images travel by value,
// kMostHsv to a launch.
#pragma once

#include "core/parts.h"
#include "core/pixels/adjust.h"
#include "core/pixels/hsv_values.h"
#include "cuda/launch.h"
#include "cuda/pixels/chosen_images.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostHsv = 2;  // so that tests see several launches
constexpr int kHsvPixels = 512;
#else
constexpr int kMostHsv = 64;
constexpr int kHsvPixels = 8192;  // of a block
#endif
constexpr int kHsvThreads = 256;

struct HsvImage {
  const void* from;  // [3, pixels]
  void* to;
  double hue, saturation, value;
};

struct HsvImages {
  int64_t pixels;
  int32_t count;
  HsvImage image[kMostHsv];
};

struct HsvTables {
  int32_t hue[kHsvThreads], saturation[kHsvThreads], value[kHsvThreads];
  int32_t hue_ratio[kHsvThreads], saturation_ratio[kHsvThreads];

  // One thread's entries.
  __device__ void fill(const HsvImage& image, int i) {
    hue[i] = hue_entry(i, image.hue);
    saturation[i] = gain_entry(i, image.saturation);
    value[i] = gain_entry(i, image.value);
    hue_ratio[i] = visops::hue_ratio(i);
    saturation_ratio[i] = visops::saturation_ratio(i);
  }

  __device__ RgbLevels change(int32_t r, int32_t g, int32_t b) const {
    const HsvBytes own = hsv_of_bytes(r, g, b);
    const int32_t at = hue_index(by_ratio(own.sixths, hue_ratio[own.span]));
    return levels_of_hsv(hue[at], saturation[by_ratio(own.span, saturation_ratio[own.value])],
                         value[own.value]);
  }
};

// A block has kHsvPixels of an image.
template <class T>
__global__ void __launch_bounds__(kHsvThreads)
    change_hsv(const __grid_constant__ HsvImages images, const int64_t parts) {
  __shared__ HsvTables tables;  // of bytes
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t pixels = images.pixels;
  for (int64_t i = blockIdx.x; i < images.count * parts; i += gridDim.x) {
    const int64_t number = i / parts, begin = (i - number * parts) * kHsvPixels;
    const HsvImage& image = images.image[number];
    const HsvGains gains = hsv_gains(image.hue, image.saturation, image.value);
    if constexpr (sizeof(T) == 1) {
      __syncthreads();  // the last part is done with its tables
      tables.fill(image, thread);
      __syncthreads();
    }
    const int64_t end = begin + kHsvPixels < pixels ? begin + kHsvPixels : pixels;
    for (int64_t at = begin + thread; at < end; at += kHsvThreads) {
      const T* const from = static_cast<const T*>(image.from) + at;
      T* const to = static_cast<T*>(image.to) + at;
      if constexpr (sizeof(T) == 1) {
        const RgbLevels out = tables.change(from[0], from[pixels], from[2 * pixels]);
        to[0] = static_cast<T>(out.r);
        to[pixels] = static_cast<T>(out.g);
        to[2 * pixels] = static_cast<T>(out.b);
      } else {
        const Rgb out = with_hsv(gains, from[0], from[pixels], from[2 * pixels]);
        to[0] = out.r;
        to[pixels] = out.g;
        to[2 * pixels] = out.b;
      }
    }
  }
}

// Other images stay as they are.
inline bool changes_hsv(const AdjustParams& p, const PixelOperation& operation) {
  return operation.kind == PixelKind::kHsv && p.channels == 3;
}

// The images of the batch whose operation changes_hsv().
template <class T>
void change_hsvs(const AdjustParams& p, void* stream) {
  const int64_t parts = parts_of(p.pixels(), kHsvPixels);
  HsvImages images = {};
  images.pixels = p.pixels();
  for_chosen_images(
      p, images, [&](const PixelOperation& operation) { return changes_hsv(p, operation); },
      [&](int64_t i) {
        const PixelOperation& operation = p.operations[i];
        return HsvImage{static_cast<const T*>(p.images) + i * p.size(),
                        static_cast<T*>(p.output) + i * p.size(), operation.amount,
                        operation.more[0], operation.more[1]};
      },
      [&] {
        launch(change_hsv<T>, grid_for(images.count * parts), dim3(kHsvThreads), 0, stream, images,
               parts);
      });
}

}  // namespace
}  // namespace visops
