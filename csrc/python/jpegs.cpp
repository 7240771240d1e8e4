// Images that are compressed and decoded again: what transforms.JPEG does to a leaf, in one call.
//
// libjpeg-turbo takes and gives pixels of all channels side by side. Each thread keeps buffers for
// these, as new pages would cost as much as a fifth of the work.
#include <pybind11/stl.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "python/augment.h"
#include "python/bindings.h"
#include "python/passes.h"
#include "python/strided_data.h"

namespace visops {
namespace {

// libvisops_jpeg's, which ops/jpeg/library.py has loaded: csrc/jpeg/encoder.cpp.
using RoundTrip = int (*)(const uint8_t*, int64_t, int64_t, int64_t, int64_t, uint8_t*, char*,
                          int64_t);

struct ByteImage {
  uint8_t* data;
  int64_t channels, height, width;
  std::array<int64_t, 3> strides;

  std::array<int64_t, 3> packed() const { return {1, width * channels, channels}; }
  int64_t size() const { return channels * height * width; }
};

void copy_to(const ByteImage& from, uint8_t* to, const std::array<int64_t, 3>& strides) {
  constexpr double kIdentity[] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
  const AugmentImage image = {from.data,       from.height,     from.width,
                              from.strides[0], from.strides[1], from.strides[2]};
  warp_image(image, from.channels, DType::kUInt8, kIdentity, Interpolation::kNearest, {0.0}, to,
             {0, strides[0], strides[1], strides[2]}, Threads::kCaller);
}

// Returns what is wrong, such as that an image has too many columns.
std::string compress(RoundTrip round_trip, const ByteImage& image, int64_t quality, uint8_t* out) {
  thread_local Buffer given, decoded;
  const uint8_t* pixels = image.data;
  if (image.strides != image.packed()) {
    uint8_t* const buffer = given.of_size(static_cast<size_t>(image.size()));
    copy_to(image, buffer, image.packed());
    pixels = buffer;
  }
  uint8_t* const found = decoded.of_size(static_cast<size_t>(image.size()));
  std::array<char, 512> message = {};
  if (round_trip(pixels, image.height, image.width, image.channels, quality, found, message.data(),
                 static_cast<int64_t>(message.size()))) {
    return message.data();
  }
  const ByteImage whole = {found, image.channels, image.height, image.width, image.packed()};
  copy_to(whole, out, {image.height * image.width, image.width, 1});
  return {};
}

// Images [C, H, W] as (address, strides), with their shapes; results are contiguous.
void compress_images(size_t function, const py::list& images,
                     const std::vector<std::array<int64_t, 3>>& shapes,
                     const std::vector<int64_t>& qualities, const std::vector<size_t>& outs) {
  const auto round_trip = reinterpret_cast<RoundTrip>(function);
  std::vector<ByteImage> given;
  int64_t elements = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const StridedData data = read_strided_data(images[i], 3);
    const auto& [channels, height, width] = shapes.at(i);
    given.push_back({static_cast<uint8_t*>(data.address),
                     channels,
                     height,
                     width,
                     {data.strides[0], data.strides[1], data.strides[2]}});
    elements += given.back().size();
  }
  if (qualities.size() != given.size() || outs.size() != given.size()) {
    throw std::invalid_argument("as many qualities and results as images");
  }
  std::vector<std::string> errors(given.size());  // torch's threads would make other errors of them
  run_unlocked(elements, [&] {
    run_on_threads(static_cast<int64_t>(given.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        errors[at] =
            compress(round_trip, given[at], qualities[at], reinterpret_cast<uint8_t*>(outs[at]));
      }
    });
  });
  for (const std::string& error : errors) {
    if (!error.empty()) throw std::invalid_argument("visops.transforms.JPEG: " + error);
  }
}

}  // namespace

void bind_jpegs(py::module_& m) { m.def("compress_images", &compress_images); }

}  // namespace visops
