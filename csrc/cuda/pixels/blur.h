// Box blurs and unsharp masks of images of a batch.
//
// NOTE [ Blurs on CUDA ]
// A thread a pixel. One kernel sums along rows into scratch, and the next along columns of it, in
// the order of NOTE [ Blurs ] (core/pixels/blur_taps.h), so the bits are the CPU's. That ends a box
// blur. An unsharp mask keeps the sharpened image, in shares of white, and marks edges; the same
// row kernel sums these, and a last kernel sums the columns and mixes. Taps are laid down before;
// images travel by value, kMostBlurred to a launch, whose scratch the next one takes over. Adding 0
// makes 0 of -0, as the CPU's filter does.
#pragma once

#include <algorithm>

#include "core/mirrored.h"
#include "core/parts.h"
#include "core/pixels/adjust.h"
#include "core/pixels/blur_taps.h"
#include "core/pixels/unsharp_mask.h"
#include "cuda/launch.h"
#include "cuda/pixels/chosen_images.h"
#include "cuda/pixels/laid_down.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostBlurred = 2;  // so that tests see several launches
constexpr int kBlurredPixels = 512;
constexpr int64_t kBlurScratch = 4096;
#else
constexpr int kMostBlurred = 32;
constexpr int kBlurredPixels = 2048;                // of a block
constexpr int64_t kBlurScratch = int64_t{1} << 24;  // values of a launch, but for a single image
#endif
constexpr int kBlurThreads = 256;

struct BlurredImage {
  const void* from;  // [channels, height, width]
  void* to;
  float* rows;        // likewise: sums along rows
  float* sharp;       // and the sharpened image of an unsharp mask, in shares of white
  uint8_t* edges;     // and 1 on its edges
  const float* taps;  // [radius + 1]
  int32_t radius;
  float factor;  // of a box's sum
  UnsharpMask mask;
};

using BlurredImages = ChosenImages<BlurredImage, kMostBlurred>;

// The sum over a line of neighbours; value(i) is that of the one i pixels on.
template <class Value>
__device__ float sum_of_pairs(const BlurredImage& image, const Value& value) {
  float sum = image.taps[0] * value(0);
  for (int32_t k = 1; k <= image.radius; ++k) sum += image.taps[k] * (value(-k) + value(k));
  return sum;
}

// each(image, from, to, place, sum) for the pixels of all channels, whose rows are summed: `sum` is
// that of a pixel's column, and `place` where scratch has the pixel.
template <class T, class Each>
__device__ void for_blurred_pixels(const BlurredImages& images, int64_t parts, const Each& each) {
  const int32_t height = images.height, width = images.width;
  for_channel_pixels<T, kBlurredPixels, kBlurThreads>(
      images, parts,
      [&](const BlurredImage& image, const T* from, T* to, int64_t at, int32_t y, int32_t x) {
        const int64_t first = from - static_cast<const T*>(image.from);
        const float* const column = image.rows + first + x;
        const float sum = sum_of_pairs(image, [&](int32_t k) {
          return column[static_cast<int64_t>(mirrored(y + k, height)) * width];
        });
        each(image, from + at, to + at, first + at, sum);
      });
}

// Values of T, or their shares of white.
template <class T, bool kShares>
__global__ void __launch_bounds__(kBlurThreads)
    blur_rows(const __grid_constant__ BlurredImages images, const int64_t parts) {
  for_channel_pixels<T, kBlurredPixels, kBlurThreads>(
      images, parts,
      [&](const BlurredImage& image, const T* from, T*, int64_t at, int32_t, int32_t x) {
        const T* const line = from + (at - x);
        const int64_t first = from - static_cast<const T*>(image.from);
        image.rows[first + at] = sum_of_pairs(image, [&](int32_t k) {
          const T* const near = line + mirrored(x + k, images.width);
          return kShares ? share_of_white(*near) : load_element(near);
        });
      });
}

template <class T>
__global__ void __launch_bounds__(kBlurThreads)
    blur_columns(const __grid_constant__ BlurredImages images, const int64_t parts) {
  for_blurred_pixels<T>(images, parts,
                        [&](const BlurredImage& image, const T*, T* to, int64_t, float sum) {
                          store_element(to, sum * image.factor + 0.0f);
                        });
}

template <class T>
__global__ void __launch_bounds__(kBlurThreads)
    find_edges(const __grid_constant__ BlurredImages images, const int64_t parts) {
  for_blurred_pixels<T>(
      images, parts, [&](const BlurredImage& image, const T* from, T*, int64_t place, float sum) {
        const float own = share_of_white(*from), near = sum + 0.0f;
        image.edges[place] = image.mask.is_edge(own, near) ? 1 : 0;
        image.sharp[place] = image.mask.sharpened(own, near);
      });
}

template <class T>
__global__ void __launch_bounds__(kBlurThreads)
    mask_unsharply(const __grid_constant__ BlurredImages images, const int64_t parts) {
  for_blurred_pixels<T>(
      images, parts,
      [&](const BlurredImage& image, const T* from, T* to, int64_t place, float sum) {
        store_unsharp(share_of_white(*from), image.sharp[place], sum + 0.0f, to);
      });
}

inline bool is_blur(PixelKind kind) {
  return kind == PixelKind::kBoxBlur || kind == PixelKind::kUnsharpMask;
}

// The images of the batch whose operation is of a kind that is_blur(). start(images, parts) runs
// kernels on some of them.
template <class T, class Start>
void for_blurred_images(const AdjustParams& p, Workspace& workspace, PixelKind kind,
                        const Start& start) {
  const auto is_mine = [&](const PixelOperation& operation) { return operation.kind == kind; };
  const bool is_mask = kind == PixelKind::kUnsharpMask;
  const auto side_of = [&](const PixelOperation& operation) {
    return static_cast<int64_t>(is_mask ? operation.more[0] : operation.amount);
  };
  Taps all;
  int64_t chosen = 0;
  for (int64_t i = 0; i < p.batch; ++i) {
    if (!is_mine(p.operations[i])) continue;
    const PixelOperation& operation = p.operations[i];
    const Taps own = is_mask ? unsharp_taps(operation) : box_taps(side_of(operation));
    all.insert(all.end(), own.begin(), own.end());
    ++chosen;
  }
  if (chosen == 0) return;
  const int64_t most = std::clamp<int64_t>(kBlurScratch / p.size(), 1, kMostBlurred);
  const int64_t values = std::min(chosen, most) * p.size();
  const float* taps = laid_down(all, workspace);
  auto* const rows = allocate<float>(workspace, values);
  auto* const sharp = is_mask ? allocate<float>(workspace, values) : nullptr;
  auto* const edges = is_mask ? allocate<uint8_t>(workspace, values) : nullptr;
  BlurredImages images(p);
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t i) {
        const PixelOperation& operation = p.operations[i];
        const int64_t place = images.count * p.size();
        BlurredImage image = {};
        image.from = static_cast<const T*>(p.images) + i * p.size();
        image.to = static_cast<T*>(p.output) + i * p.size();
        image.rows = rows + place;
        image.taps = taps;
        image.radius = static_cast<int32_t>(side_of(operation) / 2);
        taps += image.radius + 1;
        if (is_mask) {
          image.sharp = sharp + place;
          image.edges = edges + place;
          image.mask = unsharp_mask_of(operation);
        } else {
          image.factor = box_factor(side_of(operation));
        }
        return image;
      },
      [&] { start(images, parts_of(images.pixels(), kBlurredPixels)); }, most);
}

// The images of the batch whose operation is_blur().
template <class T>
void blur_images(const AdjustParams& p, Workspace& workspace) {
  const auto run = [&](auto kernel, const BlurredImages& images, int64_t parts) {
    launch(kernel, grid_for(images.count * images.channels * parts), dim3(kBlurThreads), 0,
           workspace.stream(), images, parts);
  };
  for_blurred_images<T>(p, workspace, PixelKind::kBoxBlur,
                        [&](const BlurredImages& images, int64_t parts) {
                          run(blur_rows<T, false>, images, parts);
                          run(blur_columns<T>, images, parts);
                        });
  for_blurred_images<T>(p, workspace, PixelKind::kUnsharpMask,
                        [&](const BlurredImages& images, int64_t parts) {
                          run(blur_rows<T, sizeof(T) == 1>, images, parts);
                          run(find_edges<T>, images, parts);
                          BlurredImages edges = images;
                          for (int32_t i = 0; i < edges.count; ++i) {
                            edges.image[i].from = edges.image[i].edges;
                          }
                          run(blur_rows<uint8_t, false>, edges, parts);
                          run(mask_unsharply<T>, images, parts);
                        });
}

}  // namespace
}  // namespace visops
