#include "core/pixels/filters/neighbourhoods.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/plain_kernel.h"
#include "core/pixels/filters/filter.h"
#include "core/pixels/jpeg.h"

namespace visops {
namespace {

struct Plane {
  const void* source;
  void* target;
  DType dtype;
  int64_t height, width;
};

void filter_separably(const Plane& plane, const Taps& row, const Taps& column, float factor,
                      Taps& scratch) {
  FilterParams p = {};
  p.source = plane.source;
  p.target = plane.target;
  p.dtype = plane.dtype;
  p.height = plane.height;
  p.width = plane.width;
  p.row = row.data();
  p.column = column.data();
  p.row_radius = static_cast<int64_t>(row.size()) - 1;
  p.column_radius = static_cast<int64_t>(column.size()) - 1;
  p.factor = factor;
  const int64_t numbers = filter_scratch(p.height, p.width, p.row_radius, p.column_radius);
  if (static_cast<int64_t>(scratch.size()) < numbers) scratch.resize(static_cast<size_t>(numbers));
  p.scratch = scratch.data();
  run_plain(filter_stub, p);
}

template <class Each>
void for_each_plane(const PixelImage& image, const Each& each) {
  const int64_t bytes = image.height * image.width * element_size(image.dtype);
  for (int64_t c = 0; c < image.channels; ++c) {
    char* const data = static_cast<char*>(image.data) + c * bytes;
    each(Plane{data, data, image.dtype, image.height, image.width});
  }
}

void blur(const PixelImage& image, const Taps& row, const Taps& column, float factor = 1.0f) {
  Taps scratch;
  for_each_plane(
      image, [&](const Plane& plane) { filter_separably(plane, row, column, factor, scratch); });
}

void filter(const PixelImage& image, const SmallFilter& kernel) {
  Taps scratch(
      static_cast<size_t>(filter_scratch(image.height, image.width, kernel.radius, kernel.radius)));
  for_each_plane(image, [&](const Plane& plane) {
    FilterParams p = {};
    p.source = plane.source;
    p.target = plane.target;
    p.dtype = plane.dtype;
    p.height = plane.height;
    p.width = plane.width;
    p.row_radius = p.column_radius = kernel.radius;
    p.offsets = kernel.offsets.data();
    p.weights = kernel.weights.data();
    p.tap_count = static_cast<int64_t>(kernel.weights.size());
    p.factor = 1.0f;
    p.scratch = scratch.data();
    run_plain(filter_stub, p);
    if (!kernel.clip || plane.dtype != DType::kFloat32) return;
    float* const data = static_cast<float*>(plane.target);
    for (int64_t i = 0; i < plane.height * plane.width; ++i) {
      data[i] = clamped(data[i], 1.0f);
    }
  });
}

template <class T>
void unsharp_mask(const PixelImage& image, const PixelOperation& operation) {
  const Taps taps = unsharp_taps(operation);
  const UnsharpMask mask = unsharp_mask_of(operation);
  const auto count = static_cast<size_t>(image.height * image.width);
  Taps scratch, own(count), other(count), edges(count);  // other: blurred, then sharpened
  for (int64_t c = 0; c < image.channels; ++c) {
    T* const data = static_cast<T*>(image.data) + static_cast<size_t>(c) * count;
    for (size_t i = 0; i < count; ++i) own[i] = share_of_white(data[i]);
    const auto blurred = [&](const Taps& from, Taps& to) {
      const Plane plane = {from.data(), to.data(), DType::kFloat32, image.height, image.width};
      filter_separably(plane, taps, taps, 1.0f, scratch);
    };
    blurred(own, other);
    for (size_t i = 0; i < count; ++i) {
      edges[i] = mask.is_edge(own[i], other[i]) ? 1.0f : 0.0f;
      other[i] = mask.sharpened(own[i], other[i]);
    }
    blurred(edges, edges);
    for (size_t i = 0; i < count; ++i) store_unsharp(own[i], other[i], edges[i], data + i);
  }
}

std::vector<int64_t> downscaled_positions(int64_t size, double factor) {
  const DownscaledSide side = downscaled_side(size, factor);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < size; ++i) positions.push_back(side.position(i));
  return positions;
}

// In place, from the end: what is read for a place is never beyond it.
template <class T>
void downscale(const PixelImage& image, double factor) {
  const std::vector<int64_t> rows = downscaled_positions(image.height, factor);
  const std::vector<int64_t> columns = downscaled_positions(image.width, factor);
  const int64_t width = image.width;
  for (int64_t c = 0; c < image.channels; ++c) {
    T* const plane = static_cast<T*>(image.data) + c * image.height * width;
    for (int64_t y = image.height - 1; y >= 0; --y) {
      const int64_t source = rows[static_cast<size_t>(y)];
      T* const to = plane + y * width;
      if (y + 1 < image.height && source == rows[static_cast<size_t>(y) + 1]) {
        std::copy_n(to + width, width, to);
        continue;
      }
      const T* const row = plane + source * width;
      for (int64_t x = width - 1; x >= 0; --x) to[x] = row[columns[static_cast<size_t>(x)]];
    }
  }
}

}  // namespace

bool run_neighbourhood(const PixelOperation& operation, const PixelImage& image) {
  const double amount = operation.amount;
  const double* const more = operation.more;
  const bool bytes = image.dtype == DType::kUInt8;
  const auto side = static_cast<int64_t>(amount);
  if (is_small_filter(operation.kind)) {
    filter(image, small_filter(operation));
    return true;
  }
  switch (operation.kind) {
    case PixelKind::kBoxBlur: {
      const Taps ones = box_taps(side);
      blur(image, ones, ones, box_factor(side));
      return true;
    }
    case PixelKind::kGaussianBlur:
      blur(image, gaussian_taps(static_cast<int64_t>(more[0]), amount),
           gaussian_taps(static_cast<int64_t>(more[1]), amount));
      return true;
    case PixelKind::kMedianBlur: median_blur(image, side); return true;
    case PixelKind::kUnsharpMask:
      bytes ? unsharp_mask<uint8_t>(image, operation) : unsharp_mask<float>(image, operation);
      return true;
    case PixelKind::kClahe:
      clahe(image, amount, static_cast<int64_t>(more[0]), static_cast<int64_t>(more[1]));
      return true;
    case PixelKind::kDownscale:
      bytes ? downscale<uint8_t>(image, amount) : downscale<float>(image, amount);
      return true;
    case PixelKind::kJpeg: compress_as_jpeg(image, static_cast<int64_t>(amount)); return true;
    default: return false;
  }
}

}  // namespace visops
