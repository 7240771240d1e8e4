// Box blurs, unsharp masks, small filters, dilations and medians of images of a batch.
//
// NOTE [ Blurs on CUDA ]
// A thread a pixel. One kernel sums along rows into scratch, and the next along columns of it, in
// the order of NOTE [ Blurs ] (core/pixels/filters/filter.h), so the bits are the CPU's. That
// ends a box blur. An unsharp mask keeps the sharpened image, in shares of white, and marks edges;
// the same row kernel sums these, and a last kernel sums the columns and mixes. Taps are laid down
// before; images travel by value, kMostBlurred to a launch, whose scratch the next one takes over.
// Adding 0 makes 0 of -0, as the CPU's filter does.
#pragma once

#include <algorithm>

#include "core/numbers/arithmetic.h"
#include "core/pixels/adjust.h"
#include "core/pixels/filters/filter.h"
#include "core/pixels/filters/median.h"
#include "core/pixels/filters/neighbourhoods.h"
#include "cuda/launch.h"
#include "cuda/pixels/image_batch.h"
#include "cuda/send_words.h"

namespace visops {
namespace {

// Medians of squares of images of a batch.
//
// NOTE [ Medians on CUDA ]
// A thread a pixel, in rows, so that neighbours read the same lines of memory. Squares up to 7 x 7
// go through the CPU's network, in registers. Of larger squares, the median's order is found bit by
// bit: it is the greatest number that no more than half of the values are below. So a square is
// counted 8 times for bytes and 32 times for floats, whatever its values are; what the rim repeats
// is counted once and multiplied. Images travel by value, kMostMedians to a launch.

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostMedians = 2;  // so that tests see several launches
constexpr int kMedianPixels = 512;
#else
constexpr int kMostMedians = 64;
constexpr int kMedianPixels = 2048;  // of a block
#endif
constexpr int kMedianThreads = 256;

struct MedianImage {
  const void* from;  // [channels, height, width]
  void* to;
  int32_t side;
};

using MedianImages = ChosenImages<MedianImage, kMostMedians>;

// A side of a square of which parts may lie outside: the pixels from `first` to `last`, of which
// these two count `before` and `after` times more.
struct MedianSpan {
  int32_t first, last, before, after;

  __device__ MedianSpan(int32_t middle, int32_t radius, int32_t size)
      : first(within(middle - radius, size)),
        last(within(middle + radius, size)),
        before(first - (middle - radius)),
        after(middle + radius - last) {}
};

template <class T>
struct MedianSquare {
  const T* plane;
  int32_t width;
  MedianSpan down, across;

  // How many values are before `order`.
  __device__ int32_t count_before(uint32_t order) const {
    int32_t sum = 0;
    for (int32_t y = down.first; y <= down.last; ++y) {
      const T* const row = plane + static_cast<int64_t>(y) * width;
      int32_t own = 0;
      for (int32_t x = across.first; x <= across.last; ++x) own += order_of(row[x]) < order;
      if (order_of(row[across.first]) < order) own += across.before;
      if (order_of(row[across.last]) < order) own += across.after;
      sum += own;
      if (y == down.first) sum += down.before * own;
      if (y == down.last) sum += down.after * own;
    }
    return sum;
  }

  __device__ T median(int32_t half) const {
    uint32_t order = 0;
    for (uint32_t bit = uint32_t{1} << (8 * sizeof(T) - 1); bit != 0; bit >>= 1) {
      if (count_before(order | bit) <= half) order |= bit;
    }
    return value_of_order<T>(order);
  }
};

// The median around a pixel by the network.
template <int side, class T>
__device__ T small_median(const T* plane, int32_t height, int32_t width, int32_t y, int32_t x) {
  constexpr bool by_order = sizeof(T) == 1 || kMedianByOrder<side, T>;
  using Value = std::conditional_t<by_order, uint32_t, T>;
  const T* rows[side];
  int32_t columns[side];
  Value values[side * side];
  unrolled<0, side>([&](auto i) {
    rows[i.value] = plane + static_cast<int64_t>(within(y + i.value - side / 2, height)) * width;
    columns[i.value] = within(x + i.value - side / 2, width);
  });
  unrolled<0, side * side>([&](auto i) {
    const T value = rows[i.value / side][columns[i.value % side]];
    if constexpr (by_order) {
      values[i.value] = order_of(value);
    } else {
      values[i.value] = value;
    }
  });
  const Value found = median_of_square<side>(values);
  if constexpr (by_order) {
    return value_of_order<T>(found);
  } else {
    return found;
  }
}

// A block has kMedianPixels of a channel. A side of 0 is that of each image.
template <class T, int side>
__global__ void __launch_bounds__(kMedianThreads, side == 7 ? 2 : 4)
    blur_by_median(const __grid_constant__ MedianImages images, const int64_t parts) {
  const int32_t height = images.height, width = images.width;
  for_channel_pixels<T, kMedianPixels, kMedianThreads>(
      images, parts,
      [&](const MedianImage& image, const T* from, T* to, int64_t at, int32_t y, int32_t x) {
        if constexpr (side > 0) {
          to[at] = small_median<side>(from, height, width, y, x);
        } else {
          const int32_t radius = image.side / 2;
          const MedianSquare<T> square = {from, width, MedianSpan(y, radius, height),
                                          MedianSpan(x, radius, width)};
          to[at] = square.median(image.side * image.side / 2);
        }
      });
}

// Starts `kernel` on the images of the batch whose median has a side from `least` to `most`.
template <class T, class Kernel>
void launch_medians(Kernel kernel, const AdjustParams& p, void* stream, double least, double most) {
  const int64_t parts = parts_of(p.pixels(), kMedianPixels);
  MedianImages images(p);
  for_chosen_images(
      p, images,
      [&](const PixelOperation& operation) {
        return operation.kind == PixelKind::kMedianBlur && operation.amount >= least &&
               operation.amount <= most;
      },
      [&](int64_t i) {
        return MedianImage{static_cast<const T*>(p.images) + i * p.size(),
                           static_cast<T*>(p.output) + i * p.size(),
                           static_cast<int32_t>(p.operations[i].amount)};
      },
      [&] {
        launch(kernel, grid_for(images.count * images.channels * parts), dim3(kMedianThreads), 0,
               stream, images, parts);
      });
}

// A side of 1 changes nothing.
inline bool is_median(const PixelOperation& operation) {
  return operation.kind == PixelKind::kMedianBlur && operation.amount > 1.0;
}

// The images of the batch whose operation is_median().
template <class T>
void blur_by_medians(const AdjustParams& p, void* stream) {
  launch_medians<T>(blur_by_median<T, 3>, p, stream, 3.0, 3.0);
  launch_medians<T>(blur_by_median<T, 5>, p, stream, 5.0, 5.0);
  launch_medians<T>(blur_by_median<T, 7>, p, stream, 7.0, 7.0);
  launch_medians<T>(blur_by_median<T, 0>, p, stream, 9.0, static_cast<double>(kMostMedianSide));
}

// Small filters of images of a batch.
//
// NOTE [ Small filters on CUDA ]
// A thread a pixel: it sums over the taps in their order, as the CPU does (NOTE [ Small filters ],
// core/pixels/filters/filter.h), so the bits are the CPU's. Taps are laid down before; all
// lanes of a warp read the same one. Images travel by value, kMostFiltered to a launch.

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostFiltered = 2;  // so that tests see several launches
constexpr int kFilteredPixels = 512;
#else
constexpr int kMostFiltered = 64;
constexpr int kFilteredPixels = 2048;  // of a block
#endif
constexpr int kFilterThreads = 256;

struct FilteredTap {
  float weight;
  int16_t down, across;
};

struct FilteredImage {
  const void* from;  // [channels, height, width]
  void* to;
  const FilteredTap* taps;
  int32_t count;
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
        for (int32_t k = 0; k < image.count; ++k) {
          const FilteredTap tap = image.taps[k];
          const int64_t row = mirrored(y + tap.down, height);
          sum += tap.weight * load_element(from + row * width + mirrored(x + tap.across, width));
        }
        if (image.clip && sizeof(T) != 1) sum = clamped(sum, 1.0f);
        store_element(to + at, sum);
      });
}

// The images of the batch whose operation is_small_filter().
template <class T>
void filter_images(const AdjustParams& p, Workspace& workspace) {
  const auto is_mine = [](const PixelOperation& own) { return is_small_filter(own.kind); };
  std::vector<FilteredTap> all;
  std::vector<FilteredImage> filters;
  for (int64_t i = 0; i < p.batch; ++i) {
    if (!is_mine(p.operations[i])) continue;
    const SmallFilter own = small_filter(p.operations[i]);
    const size_t count = own.weights.size();
    for (size_t k = 0; k < count; ++k) {
      all.push_back({own.weights[k], static_cast<int16_t>(own.offsets[2 * k]),
                     static_cast<int16_t>(own.offsets[2 * k + 1])});
    }
    filters.push_back({static_cast<const T*>(p.images) + i * p.size(),
                       static_cast<T*>(p.output) + i * p.size(), nullptr,
                       static_cast<int32_t>(count), own.clip});
  }
  if (filters.empty()) return;
  const FilteredTap* taps = sent(all, workspace);
  const int64_t parts = parts_of(p.pixels(), kFilteredPixels);
  FilteredImages images(p);
  size_t next = 0;
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t) {
        FilteredImage image = filters[next++];
        image.taps = taps;
        taps += image.count;
        return image;
      },
      [&] {
        launch(filter_small<T>, grid_for(images.count * images.channels * parts),
               dim3(kFilterThreads), 0, workspace.stream(), images, parts);
      });
}

// Dilation and erosion of images of a batch.
//
// NOTE [ Dilation on CUDA ]
// A thread a pixel, which reads what lies under the ellipse. Ellipses travel with their images by
// value, kMostDilated to a launch.

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostDilated = 2;  // so that tests see several launches
constexpr int kDilatedPixels = 512;
#else
constexpr int kMostDilated = 12;
constexpr int kDilatedPixels = 2048;  // of a block
#endif
constexpr int kDilateThreads = 256;

struct DilatedImage {
  const void* from;  // [channels, height, width]
  void* to;
  Ellipse ellipse;
  bool dilates;
};

using DilatedImages = ChosenImages<DilatedImage, kMostDilated>;

// A block has kDilatedPixels of a channel.
template <class T>
__global__ void __launch_bounds__(kDilateThreads)
    dilate_pixels(const __grid_constant__ DilatedImages images, const int64_t parts) {
  const int32_t height = images.height, width = images.width;
  for_channel_pixels<T, kDilatedPixels, kDilateThreads>(
      images, parts,
      [&](const DilatedImage& image, const T* from, T* to, int64_t at, int32_t y, int32_t x) {
        const Ellipse& ellipse = image.ellipse;
        T found = from[at];
        for (int32_t i = 0; i < ellipse.height; ++i) {
          const int32_t row = y + i - ellipse.above;
          if (row < 0 || row >= height) continue;
          const T* const line = from + static_cast<int64_t>(row) * width;
          const int32_t last = within(x + ellipse.right_of(i), width);
          for (int32_t k = within(x - ellipse.reach[i], width); k <= last; ++k) {
            found = chosen(found, line[k], image.dilates);
          }
        }
        to[at] = one_zero(found);
      });
}

template <class T>
void dilate_images(const AdjustParams& p, void* stream) {
  const int64_t parts = parts_of(p.pixels(), kDilatedPixels);
  DilatedImages images(p);
  for_chosen_images(
      p, images, [](const PixelOperation& own) { return own.kind == PixelKind::kMorphology; },
      [&](int64_t i) {
        const PixelOperation& operation = p.operations[i];
        return DilatedImage{static_cast<const T*>(p.images) + i * p.size(),
                            static_cast<T*>(p.output) + i * p.size(), ellipse_of(operation),
                            operation.amount != 0.0};
      },
      [&] {
        launch(dilate_pixels<T>, grid_for(images.count * images.channels * parts),
               dim3(kDilateThreads), 0, stream, images, parts);
      });
}

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
  const float* taps = sent(all, workspace);
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
