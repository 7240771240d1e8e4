// NOTE [ JPEG on the CPU ]
// Vectors hold the same sample of 16 blocks beside each other, so that both passes of a transform
// are loops over blocks without a shuffle. 128 bytes of a row come into that order, and out of it,
// by interleaving their halves some times: that turns the bits of a byte's position.
//
// Planes are made, transformed in place, and read again with the pixels that are written: chromas
// are interpolated from rows above and below. All three are small enough for a core's own cache.
#include "core/pixels/jpeg.h"

#include <algorithm>
#include <cstring>

#include "core/dispatch/workspace.h"
#include "core/pixels/colors/grey_means.h"

namespace visops {
namespace {

constexpr int kLanes = 16;  // blocks at once
constexpr int kSpan = kLanes * kJpegSide;
constexpr int kSamples = kJpegBlock * kLanes;

int64_t padded(int64_t width) { return parts_of(width, kSpan) * kSpan; }

VISOPS_ALWAYS_INLINE void interleave_halves(const uint8_t (&from)[kSpan], uint8_t (&to)[kSpan]) {
  for (int i = 0; i < kSpan / 2; ++i) {
    to[2 * i] = from[i];
    to[2 * i + 1] = from[kSpan / 2 + i];
  }
}

// A row of samples [block][column] to [column][block].
VISOPS_ALWAYS_INLINE void to_columns(const uint8_t* row, uint8_t (&to)[kSpan]) {
  uint8_t a[kSpan], b[kSpan];
  std::memcpy(b, row, kSpan);
  interleave_halves(b, a);
  interleave_halves(a, b);
  interleave_halves(b, a);
  interleave_halves(a, to);
}

VISOPS_ALWAYS_INLINE void from_columns(const uint8_t (&columns)[kSpan], uint8_t* row) {
  uint8_t a[kSpan], b[kSpan];
  interleave_halves(columns, a);
  interleave_halves(a, b);
  interleave_halves(b, a);
  std::memcpy(row, a, kSpan);
}

// One line of each of the blocks; `step` from a sample of it to the next.
template <class Transform>
VISOPS_ALWAYS_INLINE void transform_line(int32_t* first, int64_t step, const Transform& transform) {
  for (int i = 0; i < kLanes; ++i) {
    store_line(transform(load_line(first + i, step)), first + i, step);
  }
}

struct Divisors {
  int32_t divisor[kJpegBlock];
  float inverse[kJpegBlock];

  explicit Divisors(const JpegTable& table) {
    for (int k = 0; k < kJpegBlock; ++k) {
      divisor[k] = table.divisor[k];
      inverse[k] = jpeg_inverse_divisor(divisor[k]);
    }
  }
};

// Sixteen blocks, in place.
void code_blocks(uint8_t* first, int64_t pitch, const Divisors& divisors) {
  constexpr int kRow = kJpegSide * kLanes;
  int32_t samples[kSamples];
  for (int y = 0; y < kJpegSide; ++y) {
    uint8_t columns[kSpan];
    to_columns(first + y * pitch, columns);
    int32_t* const row = samples + y * kRow;
    for (int i = 0; i < kSpan; ++i) row[i] = columns[i] - 128;
    transform_line(row, kLanes, jpeg_forward<true>);
  }
  for (int x = 0; x < kJpegSide; ++x) {
    int32_t* const column = samples + x * kLanes;
    transform_line(column, kRow, jpeg_forward<false>);
    for (int y = 0; y < kJpegSide; ++y) {
      int32_t* const own = column + y * kRow;
      const int32_t divisor = divisors.divisor[y * kJpegSide + x];
      const float inverse = divisors.inverse[y * kJpegSide + x];
      for (int i = 0; i < kLanes; ++i) own[i] = jpeg_quantized(own[i], divisor, inverse);
    }
    transform_line(column, kRow, jpeg_inverse<false>);
  }
  for (int y = 0; y < kJpegSide; ++y) {
    int32_t* const row = samples + y * kRow;
    transform_line(row, kLanes, jpeg_inverse<true>);
    uint8_t columns[kSpan];
    for (int i = 0; i < kSpan; ++i) columns[i] = jpeg_byte(row[i] + 128);
    from_columns(columns, first + y * pitch);
  }
}

// Eight rows of a plane.
void code_rows(uint8_t* rows, int64_t pitch, const Divisors& divisors) {
  for (int64_t x = 0; x < pitch; x += kSpan) code_blocks(rows + x, pitch, divisors);
}

void extend(uint8_t* row, int64_t width, int64_t pitch) {
  std::memset(row + width, row[width - 1], static_cast<size_t>(pitch - width));
}

// Loops over a row are functions of their own: compilers believe in restricted parameters only.

void take_colors(const uint8_t* VISOPS_RESTRICT red, const uint8_t* VISOPS_RESTRICT green,
                 const uint8_t* VISOPS_RESTRICT blue, int64_t width, uint8_t* VISOPS_RESTRICT luma,
                 uint8_t* VISOPS_RESTRICT blues, uint8_t* VISOPS_RESTRICT reds) {
  for (int64_t x = 0; x < width; ++x) {
    const int32_t r = red[x], g = green[x], b = blue[x];
    luma[x] = static_cast<uint8_t>(jpeg_luma(r, g, b));
    blues[x] = static_cast<uint8_t>(jpeg_blue_chroma(r, g, b));
    reds[x] = static_cast<uint8_t>(jpeg_red_chroma(r, g, b));
  }
}

// Means of two by two.
void halve(const uint8_t* VISOPS_RESTRICT above, const uint8_t* VISOPS_RESTRICT below,
           int64_t width, uint8_t* VISOPS_RESTRICT to) {
  for (int64_t x = 0; x < width; ++x) {
    const int32_t sum = above[2 * x] + above[2 * x + 1] + below[2 * x] + below[2 * x + 1];
    to[x] = static_cast<uint8_t>(jpeg_halved(sum, static_cast<int32_t>(x)));
  }
}

void mix_rows(const uint8_t* VISOPS_RESTRICT nearest, const uint8_t* VISOPS_RESTRICT next,
              int64_t width, int16_t* VISOPS_RESTRICT sums) {
  for (int64_t x = 0; x < width; ++x) {
    sums[x] = static_cast<int16_t>(jpeg_between(nearest[x], next[x]));
  }
}

// Two samples of each sum, less 128. `sums` have one more on both sides.
void widen(const int16_t* VISOPS_RESTRICT sums, int64_t width, int16_t* VISOPS_RESTRICT to) {
  for (int64_t x = 0; x < width; ++x) {
    const int32_t left = jpeg_between(sums[x], sums[x - 1]) + 8;
    const int32_t right = jpeg_between(sums[x], sums[x + 1]) + 7;
    to[2 * x] = static_cast<int16_t>((left >> 4) - 128);
    to[2 * x + 1] = static_cast<int16_t>((right >> 4) - 128);
  }
}

void show_colors(const uint8_t* VISOPS_RESTRICT luma, const int16_t* VISOPS_RESTRICT blues,
                 const int16_t* VISOPS_RESTRICT reds, int64_t width, uint8_t* VISOPS_RESTRICT red,
                 uint8_t* VISOPS_RESTRICT green, uint8_t* VISOPS_RESTRICT blue) {
  for (int64_t x = 0; x < width; ++x) {
    const int32_t y = luma[x], cb = blues[x], cr = reds[x];
    red[x] = jpeg_red(y, cb, cr);
    green[x] = jpeg_green(y, cb, cr);
    blue[x] = jpeg_blue(y, cb, cr);
  }
}

void to_levels(const float* VISOPS_RESTRICT values, int64_t width, uint8_t* VISOPS_RESTRICT to) {
  for (int64_t x = 0; x < width; ++x) to[x] = rounded_level(values[x]);
}

void from_levels(const uint8_t* VISOPS_RESTRICT levels, int64_t width, float* VISOPS_RESTRICT to) {
  for (int64_t x = 0; x < width; ++x) to[x] = value_of_level<float>(levels[x]);
}

struct Plane {
  uint8_t* data;
  int64_t pitch;

  uint8_t* row(int64_t y) const { return data + y * pitch; }
};

Plane allocate_plane(Workspace& workspace, int64_t rows, int64_t width) {
  const int64_t pitch = padded(width);
  return {allocate<uint8_t>(workspace, rows * pitch), pitch};
}

class Image {
 public:
  Image(const JpegParams& p, Workspace& workspace)
      : size_{p.image.height, p.image.width},
        data_(p.image.data),
        has_bytes_(p.image.dtype == DType::kUInt8),
        in_color_(p.image.channels == 3),
        luma_table_(p.tables.luma),
        chroma_table_(p.tables.chroma) {
    const int64_t units = size_.units_down(), chroma_width = size_.chroma_width();
    luma_ = allocate_plane(workspace, units * kJpegUnit, size_.width);
    for (uint8_t*& row : levels_) {
      if (!has_bytes_) row = allocate<uint8_t>(workspace, size_.width);
    }
    if (!in_color_) return;
    for (Plane& plane : chroma_) plane = allocate_plane(workspace, units * kJpegSide, chroma_width);
    // As wide as both halves of a chroma's row, with its padding.
    for (Plane& plane : full_) plane = allocate_plane(workspace, 2, 2 * chroma_[0].pitch);
    sums_ = allocate<int16_t>(workspace, chroma_[0].pitch + 2);
    for (int16_t*& row : wide_) row = allocate<int16_t>(workspace, 2 * chroma_[0].pitch);
  }

  void code() {
    for (int64_t y = 0; y < size_.height; y += kJpegUnit) code_unit(y);
    for (int64_t y = 0; y < size_.height; ++y) in_color_ ? show_color(y) : show_grey(y);
  }

 private:
  template <class T>
  T* row(int64_t channel, int64_t y) const {
    return static_cast<T*>(data_) + (channel * size_.height + y) * size_.width;
  }

  // Returns a row of a channel as bytes.
  const uint8_t* taken(int64_t channel, int64_t y) const {
    if (has_bytes_) return row<uint8_t>(channel, y);
    to_levels(row<float>(channel, y), size_.width, levels_[channel]);
    return levels_[channel];
  }

  // Where bytes of a row of a channel go; show() brings them to floating images.
  uint8_t* shown(int64_t channel, int64_t y) const {
    return has_bytes_ ? row<uint8_t>(channel, y) : levels_[channel];
  }
  void show(int64_t channel, int64_t y) const {
    if (!has_bytes_) from_levels(levels_[channel], size_.width, row<float>(channel, y));
  }

  // Sixteen rows of pixels.
  void code_unit(int64_t first) {
    for (int64_t y = first; y < first + kJpegUnit; y += 2) {
      for (int64_t k = 0; k < 2; ++k) in_color_ ? take_color(y, k) : take_grey(y + k);
      if (in_color_) halve_chromas(y / 2);
    }
    for (int64_t y = first; y < first + kJpegUnit; y += kJpegSide) {
      code_rows(luma_.row(y), luma_.pitch, luma_table_);
    }
    if (!in_color_) return;
    for (const Plane& plane : chroma_) {
      code_rows(plane.row(first / 2), plane.pitch, chroma_table_);
    }
  }

  void take_grey(int64_t y) {
    const int64_t width = size_.width;
    uint8_t* const to = luma_.row(y);
    std::memcpy(to, taken(0, std::min(y, size_.height - 1)), static_cast<size_t>(width));
    extend(to, width, luma_.pitch);
  }

  // Row y + k, of which row k of `full_` gets the chromas.
  void take_color(int64_t y, int64_t k) {
    const int64_t width = size_.width, from = std::min(y + k, size_.height - 1);
    uint8_t *const luma = luma_.row(y + k), *const blues = full_[0].row(k);
    uint8_t* const reds = full_[1].row(k);
    take_colors(taken(0, from), taken(1, from), taken(2, from), width, luma, blues, reds);
    extend(luma, width, luma_.pitch);
    for (const Plane& full : full_) extend(full.row(k), width, full.pitch);
  }

  // Makes row y of both chromas. Beyond the last, that is repeated: it may be a mean of two rows
  // that differ.
  void halve_chromas(int64_t y) {
    for (int c = 0; c < 2; ++c) {
      const Plane& plane = chroma_[c];
      if (y < size_.chroma_height()) {
        halve(full_[c].row(0), full_[c].row(1), plane.pitch, plane.row(y));
      } else {
        std::memcpy(plane.row(y), plane.row(y - 1), static_cast<size_t>(plane.pitch));
      }
    }
  }

  void show_grey(int64_t y) {
    std::memcpy(shown(0, y), luma_.row(y), static_cast<size_t>(size_.width));
    show(0, y);
  }

  // Returns row y of a chroma at each pixel, less 128.
  const int16_t* wide_chroma(int c, int64_t y) {
    const int64_t width = size_.chroma_width(), near = y / 2;
    const uint8_t* const nearest = chroma_[c].row(near);
    int16_t* const to = wide_[c];
    if (!size_.interpolates()) {
      for (int64_t x = 0; x < 2 * width; ++x) to[x] = static_cast<int16_t>(nearest[x / 2] - 128);
      return to;
    }
    const int64_t next =
        y % 2 == 0 ? std::max<int64_t>(near - 1, 0) : std::min(near + 1, size_.chroma_height() - 1);
    int16_t* const sums = sums_ + 1;
    mix_rows(nearest, chroma_[c].row(next), width, sums);
    sums[-1] = sums[0];
    sums[width] = sums[width - 1];
    widen(sums, width, to);
    return to;
  }

  void show_color(int64_t y) {
    const int16_t *const blues = wide_chroma(0, y), *const reds = wide_chroma(1, y);
    show_colors(luma_.row(y), blues, reds, size_.width, shown(0, y), shown(1, y), shown(2, y));
    for (int64_t c = 0; c < 3; ++c) show(c, y);
  }

  JpegSize size_;
  void* data_;
  bool has_bytes_, in_color_;
  Divisors luma_table_, chroma_table_;
  Plane luma_ = {}, chroma_[2] = {}, full_[2] = {};  // chromas: blue, red
  uint8_t* levels_[3] = {};                          // of a row of floats
  int16_t *sums_ = nullptr, *wide_[2] = {};
};

void jpeg_kernel(const JpegParams& p, Workspace& workspace) { Image(p, workspace).code(); }

const bool registered = jpeg_stub.set(kIsaSlot, jpeg_kernel);

}  // namespace
}  // namespace visops
