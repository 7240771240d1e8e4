// NOTE [ Staged pixels ]
// Lanes whose pixels lie askew in the image touch a line of the cache each, once for every tap and
// channel. So a block takes its tile in parts of kPartSide x kPartSide pixels, and first copies the
// box of the image that a part reads to shared memory: along rows, with the channels of a pixel
// side by side, so that a tap of all channels is one load. Neighbours in a column of the box are an
// odd number of pixels apart, which lets lanes in any direction read from different banks.
//
// What lies beyond the border is copied as padding has it, folded or as the fill: inside the box no
// pixel is a special one. A part whose box doesn't fit, because the image shrinks, is left to
// NOTE [ Inner pixels ], as one that is beyond a constant border, and one at it whose fill the
// elements' type doesn't hold.
#pragma once

#include "cuda/byte_products.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/inner_pixels.h"
#include "cuda/warp/tall_tiles.h"
#include "cuda/warp_extremes.h"

namespace visops {
namespace {

constexpr int kPartSide = kWarp;
constexpr int kPartsAcross = static_cast<int>(kSegment) / kPartSide;
constexpr int kStagedParts = kPartsAcross * (kMostTileRows / kPartSide);
constexpr int kStagedPixels = 2440;  // the box of a part at 45 degrees: 46 rows of 52 and one more
constexpr int kStagedChannels = 4;

static_assert(kStagedParts * kWarp == kTileThreads, "a warp finds the box of a part");

// The elements of a pixel, four of them if there are as many channels.
template <class T>
struct alignas(kStagedChannels * sizeof(T)) StagedPixel {
  uint32_t word[sizeof(T)];

  __device__ void set(int c, T element) {
    if constexpr (sizeof(T) == 4) {
      word[c] = bit_cast<uint32_t>(element);
    } else if constexpr (sizeof(T) == 2) {
      word[c / 2] |= uint32_t{bit_cast<uint16_t>(element)} << (16 * (c % 2));
    } else {
      word[0] |= uint32_t{element} << (8 * c);
    }
  }

  __device__ T element(int c) const {
    if constexpr (sizeof(T) == 4) {
      return bit_cast<T>(word[c]);
    } else if constexpr (sizeof(T) == 2) {
      return bit_cast<T>(static_cast<uint16_t>(word[c / 2] >> (16 * (c % 2))));
    } else {
      return static_cast<T>(word[0] >> (8 * c));
    }
  }
};

constexpr int kWordPixels = 4;  // bytes of a plane

// Rows of planes of bytes that are whole words: how many pixels before the one that boxes count
// from one begins. -1: they aren't, or not of bytes.
template <class T>
__device__ inline int word_skew(const T* planes, const Strides& stride, int64_t width,
                                int32_t base) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(planes) | static_cast<uint64_t>(width) |
                        static_cast<uint64_t>(stride.row) | static_cast<uint64_t>(stride.channel);
  const bool words = sizeof(T) == 1 && stride.column == 1 && bits % kWordPixels == 0;
  return words ? base & (kWordPixels - 1) : -1;
}

// What a part of a tile reads: pixels of the image from (x, y) on, which may lie beyond it.
struct alignas(16) StagedBox {
  int32_t x, y, width, height;
  int32_t pitch;   // pixels of shared memory from row to row
  uint32_t start;  // number(x, y) of the box
  bool fits;
  bool inside;  // the image

  // Where a pixel lies in shared memory. Pixel (0, 0) may be too far away for signed numbers.
  __device__ int place(int x, int y) const { return static_cast<int>(number(x, y) - start); }
  __device__ uint32_t number(int x, int y) const {
    return static_cast<uint32_t>(y) * static_cast<uint32_t>(pitch) + static_cast<uint32_t>(x);
  }
};

// use(part, walk, end) for the parts of a tile of `rows` rows that are in the output, by all
// threads of the block: those of this thread are in rows before `end`.
template <class Use>
__device__ void each_part(const TileAt& at, int rows, int64_t output_width, const Use& use) {
  for (int part = 0; part < kStagedParts; ++part) {
    const int left = part % kPartsAcross * kPartSide, top = part / kPartsAcross * kPartSide;
    if (top >= rows || at.x + left >= output_width) continue;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const TileWalk walk = {left + lane, top + static_cast<int>(threadIdx.x) / kWarp,
                           kTileThreads / kWarp};
    use(part, walk, rows < top + kPartSide ? rows : top + kPartSide);
  }
}

// The box of a part of a tile of `rows` rows, by all lanes of a warp: whole words, if rows of the
// image are. It has height x width pixels, and `folds` says that those beyond it can be staged,
// too.
template <class Acc>
__device__ inline StagedBox staged_box(const InnerRow<Acc>* inner, int rows, int part, int skew,
                                       int64_t height, int64_t width, bool folds, bool constant) {
  constexpr Interpolation kMode = Interpolation::kBilinear;
  const int left = part % kPartsAcross * kPartSide, top = part / kPartsAcross * kPartSide;
  if (top >= rows) return {};
  const int last = rows - 1 < top + kPartSide - 1 ? rows - 1 : top + kPartSide - 1;
  const int own = top + static_cast<int>(threadIdx.x) % kWarp;
  const InnerRow<Acc>& row = inner[own < last ? own : last];
  // Coordinates grow or fall along a row, rounding included.
  const auto one = inner_pixel<kMode>(row, from_centre<Acc>(left), 0, 0);
  const auto two = inner_pixel<kMode>(row, from_centre<Acc>(left + kPartSide - 1), 0, 0);
  StagedBox box;
  box.x = least_of_warp(one.x < two.x ? one.x : two.x);
  box.y = least_of_warp(one.y < two.y ? one.y : two.y);
  box.width = most_of_warp(one.x < two.x ? two.x : one.x) - box.x + 2;
  box.height = most_of_warp(one.y < two.y ? two.y : one.y) - box.y + 2;
  box.inside =
      box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height;
  const bool beyond =
      box.x >= width || box.y >= height || box.x + box.width <= 0 || box.y + box.height <= 0;
  if (skew >= 0) {
    const int32_t before = (box.x + skew) & (kWordPixels - 1);
    box.x -= before;
    box.width = (box.width + before + kWordPixels - 1) & ~(kWordPixels - 1);
  }
  box.pitch = box.width | 1;
  box.start = box.number(box.x, box.y);
  const bool is_known = __all_sync(0xffffffffu, row.columns != 0 && row.rows != 0) != 0;
  box.fits = is_known && (box.inside || (folds && !(constant && beyond))) &&
             int64_t{box.pitch} * box.height <= kStagedPixels;
  return box;
}

// What a block copies boxes from: planes of height x width elements, `count` of them.
template <class T>
struct StagedImage {
  const T* planes;
  Strides stride;
  int count;
  int64_t height, width;
  Padding padding;
  StagedPixel<T> fill;  // beyond a constant border
  bool words;           // of three channels, with a word_skew()

  // All channels of a pixel. kCount of them, or 0: `count`.
  template <int kCount>
  __device__ StagedPixel<T> pixel(const T* at) const {
    StagedPixel<T> pixel = {};
    for (int c = 0; c < (kCount > 0 ? kCount : kStagedChannels); ++c) {
      if (kCount == 0 && c >= count) break;
      pixel.set(c, load_readonly(at + c * stride.channel));
    }
    return pixel;
  }

  // The same of one in `row` of the image, or -1; `x` may lie beyond it.
  template <int kCount>
  __device__ StagedPixel<T> padded(int64_t row, int64_t x) const {
    const int64_t column = row < 0 ? -1 : pad_index(padding, x, width);
    if (column < 0) return fill;
    return pixel<kCount>(planes + row * stride.row + column * stride.column);
  }
};

constexpr int kStagedLanes = 16;  // of a row of a box: some 46 pixels are three times as many

// use(y, row) for the rows of a box that this thread copies a part of; `row` is in shared memory.
template <class T, class Use>
__device__ VISOPS_ALWAYS_INLINE void each_staged_row(const StagedBox& box, StagedPixel<T>* to,
                                                     const Use& use) {
  constexpr int kStep = kTileThreads / kStagedLanes;
  const int first = static_cast<int>(threadIdx.x) / kStagedLanes;
  const int height = box.height, pitch = box.pitch;
  to += first * pitch;
#pragma unroll 1
  for (int y = first; y < height; y += kStep, to += kStep * pitch) use(y, to);
}

// Copies a box inside the image to `to`, by all threads of the block.
template <int kCount, class T>
__device__ inline void stage_inside(const StagedImage<T>& image, const StagedBox& box,
                                    StagedPixel<T>* to) {
  const int lane = static_cast<int>(threadIdx.x) % kStagedLanes, width = box.width;
  const auto across = static_cast<int32_t>(image.stride.column);
  const T* const planes = image.planes + (box.x + lane) * across;
  const int32_t top = box.y, down = static_cast<int32_t>(image.stride.row);
  each_staged_row(box, to, [&](int y, StagedPixel<T>* out) {
    const T* from = planes + (top + y) * down;
#pragma unroll 1
    for (int x = lane; x < width; x += kStagedLanes, from += kStagedLanes * across) {
      out[x] = image.template pixel<kCount>(from);
    }
  });
}

// Four pixels of a photo whose rows are words.
__device__ inline void stage_word(const uint8_t* from, int64_t apart, StagedPixel<uint8_t>* out) {
  const auto word = [&](int c) {
    return load_readonly(reinterpret_cast<const uint32_t*>(from + c * apart));
  };
  const uint32_t one = word(0), two = word(1), three = word(2);
#pragma unroll
  for (uint32_t i = 0; i < kWordPixels; ++i) {
    const uint32_t both = __byte_perm(one, two, 0x40 + 0x11 * i);
    out[i].word[0] = __byte_perm(both, three, 0x4410 + 0x1100 * i);
  }
}

// The same for such a photo. Words lie inside or beyond the image as a whole; `inside` if all do.
template <bool inside>
__device__ inline void stage_words(const StagedImage<uint8_t>& image, const StagedBox& box,
                                   StagedPixel<uint8_t>* to) {
  constexpr int kStep = kTileThreads / kStagedLanes;
  const int thread = static_cast<int>(threadIdx.x), height = box.height, pitch = box.pitch;
  const int top = thread / kStagedLanes;
  const int64_t apart = image.stride.channel;
  const auto down = static_cast<int32_t>(image.stride.row);
  for (int x = thread % kStagedLanes * kWordPixels; x < box.width;
       x += kStagedLanes * kWordPixels) {
    const int32_t column = box.x + x;
    const bool is_there = inside || (column >= 0 && column < image.width);
    const uint8_t* const from = image.planes + column;
    int32_t at = (box.y + top) * down;
    StagedPixel<uint8_t>* out = to + (top * pitch + x);
#pragma unroll(inside ? 2 : 1)  // loads under way
    for (int y = top; y < height; y += kStep, at += kStep * down, out += kStep * pitch) {
      if (inside) {
        stage_word(from + at, apart, out);
        continue;
      }
      const int64_t row = pad_index(image.padding, box.y + y, image.height);
      if (row >= 0 && is_there) {
        stage_word(from + row * down, apart, out);
      } else {
        for (int i = 0; i < kWordPixels; ++i) out[i] = image.template padded<3>(row, column + i);
      }
    }
  }
}

// The same for any box.
template <int kCount, class T>
__device__ inline void stage_padded(const StagedImage<T>& image, const StagedBox& box,
                                    StagedPixel<T>* to) {
  const int lane = static_cast<int>(threadIdx.x) % kStagedLanes, width = box.width;
  each_staged_row(box, to, [&](int y, StagedPixel<T>* out) {
    const int64_t row = pad_index(image.padding, box.y + y, image.height);
#pragma unroll 1
    for (int x = lane; x < width; x += kStagedLanes) {
      out[x] = image.template padded<kCount>(row, box.x + x);
    }
  });
}

template <class T>
__device__ inline void stage_box(const StagedImage<T>& image, const StagedBox& box,
                                 StagedPixel<T>* to) {
  constexpr int kPhoto = 3;  // channels
  const bool is_photo = image.count == kPhoto;
  if constexpr (sizeof(T) == 1) {
    if (image.words && box.inside) return stage_words<true>(image, box, to);
    if (image.words) return stage_words<false>(image, box, to);
  }
  if (!box.inside) {
    if (is_photo) return stage_padded<kPhoto>(image, box, to);
    return stage_padded<0>(image, box, to);
  }
  if (is_photo) return stage_inside<kPhoto>(image, box, to);
  stage_inside<0>(image, box, to);
}

// A pixel's taps, in shared memory.
template <class T>
struct StagedTaps {
  StagedPixel<T> value[2][2];

  // The first tap is (x, y), as the box counts.
  __device__ StagedTaps(const StagedPixel<T>* pixels, const StagedBox& box, int x, int y) {
    const int pitch = box.pitch;
    const StagedPixel<T>* const at = pixels + box.place(x, y);
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) value[i][j] = at[i * pitch + j];
    }
  }

  // sample_pixel(): its bits.
  template <class Acc>
  __device__ Acc blend(const PixelTaps<Interpolation::kBilinear, Acc>& taps, int c) const {
    if constexpr (std::is_same<T, uint8_t>::value) {
      const auto byte = [&](int i, int j) { return offset_byte(value[i][j].word[0], c); };
      const float a = byte(0, 0), b = byte(0, 1);
      const float t0 = (a - kByteOffset) + taps.y.t * (byte(1, 0) - a);
      const float t1 = (b - kByteOffset) + taps.y.t * (byte(1, 1) - b);
      return t0 + taps.x.t * (t1 - t0);
    } else {
      Acc loaded[2][2];
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
          const T element = value[i][j].element(c);
          loaded[i][j] = static_cast<Acc>(load_element(&element));
        }
      }
      return blend_taps<Interpolation::kBilinear>(taps, loaded);
    }
  }
};

// store_element() for a blend of elements in the type's own range: a blend of bytes needs no
// bounds, as each step lies between its operands, but for a last place that rounding takes away.
template <class T, class Acc>
__device__ inline void store_blend(T* to, Acc value) {
  if constexpr (std::is_same<T, uint8_t>::value) {
    *to = static_cast<uint8_t>(bit_cast<uint32_t>(value + 12582912.0f));
  } else {
    store_element(to, value);
  }
}

}  // namespace
}  // namespace visops
