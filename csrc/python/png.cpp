// Rows of PNG files with a byte per pixel, which masks of classes are:
// ops/transforms/loading/sources.py inflates them.
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "python/bindings.h"

namespace visops {
namespace {

// The predictor of filter 4: of left, above and above left, the nearest to left + above - corner.
uint8_t paeth(int left, int above, int corner) {
  const int guess = left + above - corner;
  const int a = std::abs(guess - left), b = std::abs(guess - above), c = std::abs(guess - corner);
  return static_cast<uint8_t>(a <= b && a <= c ? left : b <= c ? above : corner);
}

// Undoes the filter of a row. `above` is the row before, or a row of zeros. False: no such filter.
bool unfilter(int filter, const uint8_t* from, const uint8_t* above, int64_t width, uint8_t* to) {
  uint8_t left = 0, corner = 0;
  switch (filter) {
    case 0: std::copy_n(from, width, to); return true;
    case 1:
      for (int64_t x = 0; x < width; ++x) to[x] = left = static_cast<uint8_t>(from[x] + left);
      return true;
    case 2:
      for (int64_t x = 0; x < width; ++x) to[x] = static_cast<uint8_t>(from[x] + above[x]);
      return true;
    case 3:
      for (int64_t x = 0; x < width; ++x) {
        to[x] = left = static_cast<uint8_t>(from[x] + ((left + above[x]) >> 1));
      }
      return true;
    case 4:
      for (int64_t x = 0; x < width; ++x) {
        left = static_cast<uint8_t>(from[x] + paeth(left, above[x], corner));
        corner = above[x];
        to[x] = left;
      }
      return true;
    default: return false;
  }
}

// Pixels [height, width] of inflated rows, each after the number of its filter.
py::object png_rows(const py::bytes& rows, int64_t height, int64_t width) {
  const std::string_view data = rows;
  if (height < 1 || width < 1 || static_cast<int64_t>(data.size()) != height * (width + 1)) {
    return py::none();
  }
  py::array_t<uint8_t> out({height, width});
  uint8_t* to = out.mutable_data();
  bool good = true;
  {
    const py::gil_scoped_release release;
    const std::vector<uint8_t> zeros(static_cast<size_t>(width));
    const uint8_t* above = zeros.data();
    const auto* from = reinterpret_cast<const uint8_t*>(data.data());
    for (int64_t y = 0; y < height && good; ++y, from += width + 1, to += width) {
      good = unfilter(from[0], from + 1, above, width, to);
      above = to;
    }
  }
  return good ? py::object(std::move(out)) : py::none();
}

}  // namespace

void bind_png(py::module_& m) { m.def("png_rows", &png_rows); }

}  // namespace visops
