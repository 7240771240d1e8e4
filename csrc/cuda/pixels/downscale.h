// Images of a batch made small and large again, by the nearest pixels.
//
// NOTE [ Downscaling on CUDA ]
// Positions are computed in float64, once for each row and column of an image, by a kernel of their
// own; the second copies pixels, a thread a pixel of all channels. Images travel by value,
// kMostDownscaled to a launch.
#pragma once

#include <algorithm>

#include "core/parts.h"
#include "core/pixels/adjust.h"
#include "core/pixels/downscale.h"
#include "cuda/launch.h"
#include "cuda/pixels/chosen_images.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostDownscaled = 2;  // so that tests see several launches
constexpr int kDownscaledPixels = 512;
#else
constexpr int kMostDownscaled = 24;
constexpr int kDownscaledPixels = 2048;  // of a block
#endif
constexpr int kDownscaleThreads = 256;

struct DownscaledImage {
  const void* from;  // [channels, height, width]
  void* to;
  int32_t* positions;  // [height + width]
  DownscaledSide down, across;
};

struct DownscaledImages : ChosenImages<DownscaledImage, kMostDownscaled> {
  using ChosenImages::ChosenImages;
  VISOPS_DEVICE int64_t lines() const { return static_cast<int64_t>(height) + width; }
};

__global__ void __launch_bounds__(kDownscaleThreads)
    find_downscaled_positions(const __grid_constant__ DownscaledImages images,
                              const int64_t parts) {
  for (int64_t i = blockIdx.x; i < images.count * parts; i += gridDim.x) {
    const int64_t number = i / parts;
    const int64_t line = (i - number * parts) * kDownscaleThreads + threadIdx.x;
    if (line >= images.lines()) continue;
    const DownscaledImage& image = images.image[number];
    const bool is_row = line < images.height;
    const DownscaledSide& side = is_row ? image.down : image.across;
    image.positions[line] =
        static_cast<int32_t>(side.position(is_row ? line : line - images.height));
  }
}

template <class T>
__global__ void __launch_bounds__(kDownscaleThreads)
    copy_downscaled(const __grid_constant__ DownscaledImages images, const int64_t parts) {
  const int64_t pixels = images.pixels();
  for (int64_t i = blockIdx.x; i < images.count * parts; i += gridDim.x) {
    const PixelPart part = pixel_part<kDownscaledPixels>(i, parts, pixels);
    const DownscaledImage& image = images.image[part.plane];
    const T* const from = static_cast<const T*>(image.from);
    T* const to = static_cast<T*>(image.to);
    for (int64_t at = part.begin + threadIdx.x; at < part.end; at += kDownscaleThreads) {
      const int32_t y = static_cast<int32_t>(at) / images.width;
      const int32_t x = static_cast<int32_t>(at) - y * images.width;
      const int64_t near = static_cast<int64_t>(image.positions[y]) * images.width +
                           image.positions[images.height + x];
      for (int64_t c = 0; c < images.channels; ++c) to[c * pixels + at] = from[c * pixels + near];
    }
  }
}

// The images of the batch whose operation is a downscaling.
template <class T>
void downscale_images(const AdjustParams& p, Workspace& workspace) {
  const auto is_mine = [](const PixelOperation& operation) {
    return operation.kind == PixelKind::kDownscale;
  };
  DownscaledImages images(p);
  const int64_t chosen = std::count_if(p.operations, p.operations + p.batch, is_mine);
  if (chosen == 0) return;
  auto* positions = allocate<int32_t>(workspace, chosen * images.lines());
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t i) {
        const double factor = p.operations[i].amount;
        int32_t* const own = positions;
        positions += images.lines();
        return DownscaledImage{static_cast<const T*>(p.images) + i * p.size(),
                               static_cast<T*>(p.output) + i * p.size(), own,
                               downscaled_side(p.height, factor), downscaled_side(p.width, factor)};
      },
      [&] {
        const int64_t lines = parts_of(images.lines(), kDownscaleThreads);
        launch(find_downscaled_positions, grid_for(images.count * lines), dim3(kDownscaleThreads),
               0, workspace.stream(), images, lines);
        const int64_t parts = parts_of(images.pixels(), kDownscaledPixels);
        launch(copy_downscaled<T>, grid_for(images.count * parts), dim3(kDownscaleThreads), 0,
               workspace.stream(), images, parts);
      });
}

}  // namespace
}  // namespace visops
