// NOTE [ Prefetching ]
// Hardware foresees the rows of a plane, but neither the next plane nor places that the data name.
// A box of RoIAlign reads a few pixels of every row, each some cache lines long and at irregular
// distances; so while some pixels are being summed, the next ones are prefetched. Otherwise three
// quarters of the time is spent waiting (measured: the means of 1,000 boxes on 256 channels of 200
// x 336 take 20 ms, without prefetching 75). Deformable attention and convolution do the same.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/platform.h"
#include "core/span.h"

namespace visops {
namespace {

inline int64_t address_of(const void* pointer) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer));
}

// Prefetches bytes [address, address + bytes); any address is safe.
template <bool is_written = false>
VISOPS_ALWAYS_INLINE void prefetch([[maybe_unused]] int64_t address,
                                   [[maybe_unused]] int64_t bytes) {
#if defined(__GNUC__)
  constexpr int64_t kLine = 64;
  for (int64_t line = 0; line < bytes; line += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + line), is_written ? 1 : 0);
  }
#endif
}

// Prefetches `count` elements from `from` on.
template <class T>
VISOPS_ALWAYS_INLINE void prefetch(const T* from, int64_t count) {
  prefetch(address_of(from), count * static_cast<int64_t>(sizeof(T)));
}

// Brings an image into the caches in the order of memory, before a rotated walk needs it.
//
// NOTE [ Read ahead ]
// A rotated or shrunk row touches another cache line with every pixel, in an order that no
// processor predicts; a batch that is not in the caches yet would wait for most lines one after
// another (measured: three quarters of the time; prefetching the taps to come gained nothing). Read
// in the order of memory, the same lines arrive at full memory speed. So before a band of output
// rows is sampled, one byte is loaded from every cache line of the image rows that the band needs
// and earlier bands did not read.

constexpr int64_t kCacheLine = 64;
constexpr int64_t kBandRows = 32;  // of the output
// Wide outputs are made in strips of columns, so that what a strip's band reads stays in the
// second-level cache.
constexpr int64_t kStripColumns = 512;

// An image in memory: `planes` (1 where channels are interleaved) of height x width.
struct ImageBytes {
  const void* data;
  int64_t height, width, planes;
  int64_t plane_bytes, row_bytes, column_bytes;  // from one to the next
};

// Columns or rows [first, last] of an image; empty if last < first.
struct SourceRange {
  int64_t first, last;
};

// The source columns (rows) that a * x + b * y + c may need for output columns x and rows y.
inline SourceRange source_range(double a, double b, double c, Span x, Span y, int64_t size) {
  const double ax0 = a * static_cast<double>(x.begin), ax1 = a * static_cast<double>(x.end - 1);
  const double by0 = b * static_cast<double>(y.begin), by1 = b * static_cast<double>(y.end - 1);
  const double low = std::fmin(ax0, ax1) + std::fmin(by0, by1) + c;
  const double high = std::fmax(ax0, ax1) + std::fmax(by0, by1) + c;
  if (!(low < static_cast<double>(size) && high > -1.0)) return {0, -1};
  SourceRange range;
  range.first = low > 0.0 ? static_cast<int64_t>(low) : 0;
  range.last = high < static_cast<double>(size - 2) ? static_cast<int64_t>(high) + 1 : size - 1;
  return range;
}

class ReadAhead {
 public:
  // m: output to image, affine. `columns` and `rows` of the output will be sampled, each pixel from
  // `rows_used` rows of the image.
  ReadAhead(const ImageBytes& image, const double* m, int64_t rows_used, Span columns, Span rows)
      : image_(image), m_(m), output_(columns), rows_(rows) {
    columns_ = source_range(m[0], m[1], m[2], columns, rows, image.width);
    // Upright walks may skip rows; through grey images they are fast, and hardware predicts them
    // better.
    const bool upright = m[3] == 0.0;
    const bool grey = image.planes * image.column_bytes < 3;
    const bool sparse = std::fabs(m[4]) > static_cast<double>(rows_used) + 0.5;
    useful_ = image.column_bytes > 0 && image.column_bytes <= kCacheLine / 2 &&
              columns_.first <= columns_.last && !(upright && (grey || sparse));
  }

  // Row y of the output is next.
  void at(int64_t y) {
    if (useful_ && (y - rows_.begin) % kBandRows == 0) read(intersect({y, y + kBandRows}, rows_));
  }

 private:
  void read(Span band) {
    SourceRange rows = source_range(m_[3], m_[4], m_[5], output_, band, image_.height);
    if (rows.last < rows.first) return;
    if (read_.last >= read_.first) {  // only what is new, above or below
      if (rows.first >= read_.first && rows.first <= read_.last) rows.first = read_.last + 1;
      if (rows.last <= read_.last && rows.last >= read_.first) rows.last = read_.first - 1;
    }
    const int64_t count = rows.last - rows.first + 1;
    const int64_t bytes = (columns_.last - columns_.first) * image_.column_bytes + 1;
    const int64_t lines = count * image_.planes * (bytes / kCacheLine + 1);
    // With more lines than taps, most of them would not be needed.
    if (count <= 0 ||
        lines > 2 * image_.planes * (band.end - band.begin) * (output_.end - output_.begin)) {
      return;
    }
    for (int64_t row = rows.first; row <= rows.last; ++row) {
      for (int64_t plane = 0; plane < image_.planes; ++plane) read_row(row, plane, bytes);
    }
    read_ = {rows.first < read_.first || read_.last < read_.first ? rows.first : read_.first,
             rows.last > read_.last ? rows.last : read_.last};
  }

  void read_row(int64_t row, int64_t plane, int64_t bytes) const {
    const auto* from = static_cast<const volatile uint8_t*>(image_.data) +
                       plane * image_.plane_bytes + row * image_.row_bytes +
                       columns_.first * image_.column_bytes;
    for (int64_t b = 0; b < bytes; b += kCacheLine) static_cast<void>(from[b]);
  }

  ImageBytes image_;
  const double* m_;
  Span output_, rows_;
  SourceRange columns_ = {0, -1};
  SourceRange read_ = {0, -1};
  bool useful_;
};

}  // namespace
}  // namespace visops
