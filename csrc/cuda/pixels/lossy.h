// Images of a batch as they come back from JPEG files, or from a smaller size.
//
// NOTE [ JPEG on CUDA ]
// Two kernels, with the arithmetic of core/pixels/jpeg.h, and so the CPU's bits. In the
// first, a block has 16 x 16 pixels: four blocks of luma and one of each chroma, in shared memory.
// A thread takes two by two pixels, then a row, a column (there and back) and a row again. The
// planes go to scratch memory, of which the second kernel makes pixels: chromas are interpolated
// across blocks. It may write where the first one read. Images travel by value, kMostJpegs to a
// launch.
#pragma once

#include <algorithm>

#include "core/numbers/arithmetic.h"
#include "core/pixels/adjust.h"
#include "core/pixels/colors/grey_means.h"
#include "core/pixels/jpeg.h"
#include "cuda/launch.h"
#include "cuda/pixels/image_batch.h"

namespace visops {
namespace {

// Images of a batch made small and large again, by the nearest pixels.
//
// NOTE [ Downscaling on CUDA ]
// Positions are computed in float64, once for each row and column of an image, by a kernel of their
// own; the second copies pixels, a thread a pixel of all channels. Images travel by value,
// kMostDownscaled to a launch.

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

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostJpegs = 2;  // so that tests see several launches
constexpr int kJpegPixels = 512;
#else
constexpr int kMostJpegs = 64;
constexpr int kJpegPixels = 2048;  // of a block of the second kernel
#endif
constexpr int kJpegThreads = kJpegSide * kJpegSide;  // of the first
constexpr int kJpegShowThreads = 256;
constexpr int kLumaBlocks = 4;
constexpr int kUnitBlocks = kLumaBlocks + 2;
constexpr int kJpegPitch = kJpegSide + 1;  // so that columns lie in all banks

struct JpegImage {
  const void* from;  // [channels, height, width]
  void* to;
  uint8_t* planes;  // luma [height, width], then chromas, if any
  int32_t percent;
};

struct JpegImages : ChosenImages<JpegImage, kMostJpegs> {
  JpegTables standard;

  explicit JpegImages(const AdjustParams& p)
      : ChosenImages<JpegImage, kMostJpegs>(p), standard(jpeg_standard_tables()) {}

  VISOPS_DEVICE JpegSize size() const { return {height, width}; }
  VISOPS_DEVICE bool in_color() const { return channels == 3; }
  VISOPS_DEVICE int64_t chroma_samples() const {
    return size().chroma_height() * size().chroma_width();
  }
  VISOPS_DEVICE int64_t samples() const {
    return pixels() + (in_color() ? 2 * chroma_samples() : 0);
  }
  VISOPS_DEVICE int32_t units_across() const { return static_cast<int32_t>(size().units_across()); }
  VISOPS_DEVICE int64_t units() const { return size().units_down() * units_across(); }
};

struct JpegPixel {
  int32_t r, g, b;
};

template <class T>
__device__ JpegPixel jpeg_pixel(const JpegImages& images, const T* from, int32_t y, int32_t x) {
  const int64_t pixels = images.pixels(), at = static_cast<int64_t>(y) * images.width + x;
  const T* const pixel = from + at;
  const int32_t first = rounded_level(pixel[0]);
  if (!images.in_color()) return {first, first, first};
  return {first, rounded_level(pixel[pixels]), rounded_level(pixel[2 * pixels])};
}

// Puts two by two pixels into the blocks of a unit, whose first pixel is (top, left), less 128.
// Rows below the image repeat its last; rows of chromas the last mean, maybe of two rows.
template <class T>
__device__ void take_pixels(const JpegImages& images, const T* from, int32_t top, int32_t left,
                            int32_t (&samples)[kUnitBlocks][kJpegSide * kJpegPitch]) {
  const int32_t row = static_cast<int32_t>(threadIdx.x) / kJpegSide;
  const int32_t column = static_cast<int32_t>(threadIdx.x) - row * kJpegSide;
  const auto chroma_rows = static_cast<int32_t>(images.size().chroma_height());
  const int32_t chroma_row = 2 * within(top / 2 + row, chroma_rows);
  constexpr int kHalf = kJpegSide / 2;
  int32_t* const luma = samples[row / kHalf * 2 + column / kHalf];
  int32_t blues = 0, reds = 0;
  for (int k = 0; k < 4; ++k) {
    const int32_t down = k / 2, across = k % 2;
    const int32_t x = within(left + 2 * column + across, images.width);
    const int32_t own_row = within(top + 2 * row + down, images.height);
    const JpegPixel own = jpeg_pixel(images, from, own_row, x);
    const int32_t y = 2 * (row % kHalf) + down;
    luma[y * kJpegPitch + 2 * (column % kHalf) + across] =
        (images.in_color() ? jpeg_luma(own.r, own.g, own.b) : own.r) - 128;
    if (!images.in_color()) continue;
    const int32_t other_row = within(chroma_row + down, images.height);
    const JpegPixel other = other_row == own_row ? own : jpeg_pixel(images, from, other_row, x);
    blues += jpeg_blue_chroma(other.r, other.g, other.b);
    reds += jpeg_red_chroma(other.r, other.g, other.b);
  }
  const int at = row * kJpegPitch + column;
  samples[kLumaBlocks][at] = jpeg_halved(blues, column) - 128;
  samples[kLumaBlocks + 1][at] = jpeg_halved(reds, column) - 128;
}

// A column of coefficients, by a column of a table.
__device__ inline JpegLine quantized(const JpegLine& line, const uint8_t* standard,
                                     int32_t percent) {
  const auto one = [&](int32_t value, int row) {
    const int32_t divisor = jpeg_divisor(standard[row * kJpegSide], percent);
    return jpeg_quantized(value, divisor, jpeg_inverse_divisor(divisor));
  };
  return {one(line.v0, 0), one(line.v1, 1), one(line.v2, 2), one(line.v3, 3),
          one(line.v4, 4), one(line.v5, 5), one(line.v6, 6), one(line.v7, 7)};
}

// Writes a row of a block to a plane, as far as that reaches.
__device__ inline void show_line(const JpegLine& line, uint8_t* plane, int64_t height,
                                 int64_t width, int64_t y, int64_t x) {
  if (y >= height) return;
  const int32_t values[kJpegSide] = {line.v0, line.v1, line.v2, line.v3,
                                     line.v4, line.v5, line.v6, line.v7};
  for (int i = 0; i < kJpegSide && x + i < width; ++i) {
    plane[y * width + x + i] = jpeg_byte(values[i] + 128);
  }
}

template <class T>
__global__ void __launch_bounds__(kJpegThreads)
    code_jpeg_units(const __grid_constant__ JpegImages images) {
  __shared__ int32_t samples[kUnitBlocks][kJpegSide * kJpegPitch];
  const int block = static_cast<int>(threadIdx.x) / kJpegSide;
  const int line = static_cast<int>(threadIdx.x) - block * kJpegSide;
  const bool transforms = block < (images.in_color() ? kUnitBlocks : kLumaBlocks);
  const bool is_luma = block < kLumaBlocks;
  const uint8_t* const standard =
      (is_luma ? images.standard.luma : images.standard.chroma).divisor + line;
  for (int64_t i = blockIdx.x; i < images.count * images.units(); i += gridDim.x) {
    const int64_t number = i / images.units();
    const auto unit = static_cast<int32_t>(i - number * images.units());
    const int32_t down = unit / images.units_across();
    const int32_t across = unit - down * images.units_across();
    const JpegImage& image = images.image[number];
    take_pixels(images, static_cast<const T*>(image.from), down * kJpegUnit, across * kJpegUnit,
                samples);
    __syncthreads();
    int32_t* const row = samples[transforms ? block : 0] + line * kJpegPitch;
    int32_t* const column = samples[transforms ? block : 0] + line;
    if (transforms) store_line(jpeg_forward<true>(load_line(row, 1)), row, 1);
    __syncthreads();
    if (transforms) {
      const JpegLine coefficients = jpeg_forward<false>(load_line(column, kJpegPitch));
      const JpegLine coded = quantized(coefficients, standard, image.percent);
      store_line(jpeg_inverse<false>(coded), column, kJpegPitch);
    }
    __syncthreads();
    if (transforms) {
      const JpegLine out = jpeg_inverse<true>(load_line(row, 1));
      const JpegSize size = images.size();
      if (is_luma) {
        show_line(out, image.planes, size.height, size.width,
                  down * kJpegUnit + block / 2 * kJpegSide + line,
                  across * kJpegUnit + block % 2 * kJpegSide);
      } else {
        uint8_t* const plane =
            image.planes + images.pixels() + (block - kLumaBlocks) * images.chroma_samples();
        show_line(out, plane, size.chroma_height(), size.chroma_width(), down * kJpegSide + line,
                  across * kJpegSide);
      }
    }
    __syncthreads();  // the next pixels replace these
  }
}

// The sample beyond the nearest to a pixel.
__device__ inline int32_t next_sample(int32_t pixel, int32_t samples) {
  const int32_t next = pixel % 2 == 0 ? pixel / 2 - 1 : pixel / 2 + 1;
  return within(next, samples);
}

// A chroma at a pixel, less 128.
__device__ inline int32_t chroma_at(const JpegSize& size, const uint8_t* plane, int32_t y,
                                    int32_t x) {
  const auto height = static_cast<int32_t>(size.chroma_height());
  const auto width = static_cast<int32_t>(size.chroma_width());
  const uint8_t* const nearest = plane + static_cast<int64_t>(y / 2) * width;
  if (!size.interpolates()) return nearest[x / 2] - 128;
  const uint8_t* const other = plane + static_cast<int64_t>(next_sample(y, height)) * width;
  const int32_t next = next_sample(x, width);
  const int32_t sum = jpeg_between(jpeg_between(nearest[x / 2], other[x / 2]),
                                   jpeg_between(nearest[next], other[next]));
  return ((sum + (x % 2 == 0 ? 8 : 7)) >> 4) - 128;
}

// A block has kJpegPixels of an image.
template <class T>
__global__ void __launch_bounds__(kJpegShowThreads)
    show_jpegs(const __grid_constant__ JpegImages images, const int64_t parts) {
  const int64_t pixels = images.pixels();
  const JpegSize size = images.size();
  for (int64_t i = blockIdx.x; i < images.count * parts; i += gridDim.x) {
    const PixelPart part = pixel_part<kJpegPixels>(i, parts, pixels);
    const JpegImage& image = images.image[part.plane];
    for (int64_t at = part.begin + threadIdx.x; at < part.end; at += kJpegShowThreads) {
      T* const to = static_cast<T*>(image.to) + at;
      const uint8_t luma = image.planes[at];
      if (!images.in_color()) {
        *to = value_of_level<T>(luma);
        continue;
      }
      const int32_t y = static_cast<int32_t>(at) / images.width;
      const int32_t x = static_cast<int32_t>(at) - y * images.width;
      const uint8_t* const chromas = image.planes + pixels;
      const int32_t blue = chroma_at(size, chromas, y, x);
      const int32_t red = chroma_at(size, chromas + images.chroma_samples(), y, x);
      to[0] = value_of_level<T>(jpeg_red(luma, blue, red));
      to[pixels] = value_of_level<T>(jpeg_green(luma, blue, red));
      to[2 * pixels] = value_of_level<T>(jpeg_blue(luma, blue, red));
    }
  }
}

// The images of the batch whose operation is a JPEG.
template <class T>
void compress_jpegs(const AdjustParams& p, Workspace& workspace) {
  const auto is_mine = [](const PixelOperation& operation) {
    return operation.kind == PixelKind::kJpeg;
  };
  const auto chosen = std::count_if(p.operations, p.operations + p.batch, is_mine);
  if (chosen == 0) return;
  JpegImages images(p);
  auto* planes = allocate<uint8_t>(workspace, chosen * images.samples());
  const int64_t parts = parts_of(images.pixels(), kJpegPixels);
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t i) {
        const JpegImage image = {static_cast<const T*>(p.images) + i * p.size(),
                                 static_cast<T*>(p.output) + i * p.size(), planes,
                                 jpeg_percent(static_cast<int64_t>(p.operations[i].amount))};
        planes += images.samples();
        return image;
      },
      [&] {
        launch(code_jpeg_units<T>, grid_for(images.count * images.units()), dim3(kJpegThreads), 0,
               workspace.stream(), images);
        launch(show_jpegs<T>, grid_for(images.count * parts), dim3(kJpegShowThreads), 0,
               workspace.stream(), images, parts);
      });
}

}  // namespace
}  // namespace visops
