// Rows of the input, extended beyond its borders, as terms.
#pragma once

#include "core/convolution/convolve2d.h"
#include "cpu/convolution/convolve2d_terms.h"

namespace visops {
namespace {

// A plane of the input and its extension.
template <class T>
class ExtendedPlane {
 public:
  ExtendedPlane(const T* data, const ConvolvePlane& plane, Padding boundary,
                const unsigned char* fill)
      : data_(data), plane_(plane), boundary_(boundary) {
    memcpy(&fill_, fill, sizeof(T));
  }

  // Copies `count` terms of row y from column x on. To is Term<T>, or T where complex numbers stay
  // pairs.
  template <class To>
  void copy_row(int64_t y, int64_t x, int64_t count, To* to, int64_t to_plane) const {
    const T* row = row_of(y);
    if (row == nullptr) return fill_row(count, to, to_plane);
    // Columns [first, last) lie inside the input.
    const int64_t first = clamp(-x, count), last = clamp(plane_.width - x, count);
    copy_beyond(row, x, first, to, to_plane);
    if (first < last) {
      load_terms(row + (x + first) * plane_.column_stride, plane_.column_stride, last - first,
                 to + first, to_plane);
    }
    const int64_t after = first > last ? first : last;
    copy_beyond(row, x + after, count - after, to + after, to_plane);
  }

  template <class To>
  void fill_row(int64_t count, To* to, int64_t to_plane) const {
    for (int64_t i = 0; i < count; ++i) load_terms(&fill_, 1, 1, to + i, to_plane);
  }

  // Null for a row of fill values.
  const T* row_of(int64_t y) const {
    const int64_t inside = pad_index(boundary_, y, plane_.height);
    return inside < 0 || plane_.height == 0 ? nullptr : data_ + inside * plane_.row_stride;
  }

 private:
  static int64_t clamp(int64_t i, int64_t count) { return i < 0 ? 0 : i > count ? count : i; }

  template <class To>
  void copy_beyond(const T* row, int64_t x, int64_t count, To* to, int64_t to_plane) const {
    if (boundary_ == Padding::kConstant) return fill_row(count, to, to_plane);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t inside = pad_index(boundary_, x + i, plane_.width);
      load_terms(row + inside * plane_.column_stride, 1, 1, to + i, to_plane);
    }
  }

  const T* data_;
  ConvolvePlane plane_;
  Padding boundary_;
  T fill_;
};

}  // namespace
}  // namespace visops
