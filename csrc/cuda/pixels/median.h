// Medians of squares of images of a batch.
//
// NOTE [ Medians on CUDA ]
// A thread a pixel, in rows, so that neighbours read the same lines of memory. Squares up to 7 x 7
// go through the CPU's network, in registers. Of larger squares, the median's order is found bit by
// bit: it is the greatest number that no more than half of the values are below. So a square is
// counted 8 times for bytes and 32 times for floats, whatever its values are; what the rim repeats
// is counted once and multiplied. Images travel by value, kMostMedians to a launch.
#pragma once

#include "core/parts.h"
#include "core/pixels/adjust.h"
#include "core/pixels/median_values.h"
#include "cuda/launch.h"
#include "cuda/pixels/chosen_images.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
