// Reads photos.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

// A binary PPM, the simplest format of photos, as uint8 [3, height, width].
inline at::Tensor read_photo(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " can't be opened");
  std::string magic;
  int64_t width = 0, height = 0, brightest = 0;
  file >> magic >> width >> height >> brightest;
  const bool sane = width > 0 && width <= 16384 && height > 0 && height <= 16384;
  if (!file || magic != "P6" || brightest != 255 || !sane) {
    throw std::runtime_error(path + " is not a binary PPM of 8 bits and at most 16384 x 16384");
  }
  file.get();  // one blank before the pixels
  at::Tensor pixels = at::empty({height, width, 3}, at::kByte);
  if (!file.read(static_cast<char*>(pixels.mutable_data_ptr()), pixels.numel())) {
    throw std::runtime_error(path + " ends early");
  }
  return pixels.permute({2, 0, 1}).contiguous();
}
