#include "core/pixels/colors/grey_means.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/plain_kernel.h"
#include "core/images/pixel.h"
#include "core/pixels/colors/lab.h"
#include "core/pixels/filters/neighbourhoods.h"

namespace visops {

KernelStub<GreyMeansParams> grey_means_stub("grey_means");

void check_grey_means(const char* op, const GreyMeansParams& p) {
  require(p.channels == 1 || p.channels == 3 || p.channels == 4, op, "pictures have ", p.channels,
          " channels, must have 1, 3 or 4");
  require(p.pixels >= 1 && p.pixels <= kMostMeanPixels, op, "pictures have ", p.pixels,
          " pixels, must have between 1 and ", kMostMeanPixels);
}

// Contrast limited adaptive histogram equalization, as cv2.createCLAHE.
//
// NOTE [ CLAHE ]
// Each tile has a histogram whose counts are cut at a limit, and what is cut is given to all
// levels; its running sum is a table. A pixel's value is interpolated between the tables of the
// four tiles around it. Images that tiles don't divide are extended by their mirror image, in both
// directions, as OpenCV does. (K. Zuiderveld, "Contrast limited adaptive histogram equalization",
// Graphics Gems IV, 1994.) Colours go through CIE Lab (core/pixels/colors/lab.h): results may
// differ from OpenCV's by two levels.

KernelStub<LabParams> lab_stub{"lab"};

namespace {

void fill_table(const uint8_t* data, int64_t image_height, int64_t image_width,
                const ClaheTiles& tiles, int64_t row, int64_t column, int32_t limit,
                uint8_t* table) {
  int32_t counts[kClaheLevels] = {};
  for (int64_t y = row * tiles.height; y < (row + 1) * tiles.height; ++y) {
    const uint8_t* const line = data + pad_index(Padding::kReflect, y, image_height) * image_width;
    for (int64_t x = column * tiles.width; x < (column + 1) * tiles.width; ++x) {
      ++counts[line[x < image_width ? x : pad_index(Padding::kReflect, x, image_width)]];
    }
  }
  if (limit > 0) {
    int32_t cut = 0;
    for (int32_t& count : counts) {
      cut += std::max(count - limit, 0);
      count = std::min(count, limit);
    }
    const ClaheGift gift = clahe_gift(cut);
    for (int32_t& count : counts) count += gift.share;
    for (int i = 0, k = 0; i < kClaheLevels && k < gift.rest; i += gift.step, ++k) ++counts[i];
  }
  const float scale = clahe_scale(tiles);
  int32_t sum = 0;
  for (int i = 0; i < kClaheLevels; ++i) {
    sum += counts[i];
    table[i] = clahe_entry(sum, scale);
  }
}

void equalize(uint8_t* data, int64_t height, int64_t width, double clip_limit, int64_t rows,
              int64_t columns) {
  const ClaheTiles tiles = clahe_tiles(height, width, rows, columns);
  const int32_t limit = clahe_limit(clip_limit, tiles);
  std::vector<uint8_t> tables(static_cast<size_t>(tiles.count() * kClaheLevels));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      fill_table(data, height, width, tiles, r, c, limit,
                 tables.data() + (r * columns + c) * kClaheLevels);
    }
  }
  const auto along = [](int64_t size, int32_t side, int32_t count) {
    std::vector<ClaheBetween> between;
    const float inverse = 1.0f / static_cast<float>(side);
    for (int32_t i = 0; i < size; ++i) between.push_back(clahe_between(i, inverse, count));
    return between;
  };
  const std::vector<ClaheBetween> across = along(width, tiles.width, tiles.columns);
  const std::vector<ClaheBetween> downwards = along(height, tiles.height, tiles.rows);
  for (int64_t y = 0; y < height; ++y) {
    const ClaheBetween& down = downwards[static_cast<size_t>(y)];
    const uint8_t* const above = tables.data() + down.first * columns * kClaheLevels;
    const uint8_t* const below = tables.data() + down.second * columns * kClaheLevels;
    uint8_t* const line = data + y * width;
    for (int64_t x = 0; x < width; ++x) {
      const ClaheBetween& own = across[static_cast<size_t>(x)];
      const int32_t left = own.first * kClaheLevels + line[x];
      const int32_t right = own.second * kClaheLevels + line[x];
      line[x] =
          clahe_mixed(above[left], above[right], below[left], below[right], own.share, down.share);
    }
  }
}

std::vector<float> table_of(int count, float (*entry)(int)) {
  std::vector<float> table;
  for (int i = 0; i < count; ++i) table.push_back(entry(i));
  return table;
}

struct LabTables {
  std::vector<float> linear = table_of(256, lab_linear_entry);
  std::vector<float> root = table_of(kLabSteps + 1, lab_root_entry);
  std::vector<float> display = table_of(kLabSteps + 1, lab_display_entry);
};

void equalize_lightness(uint8_t* data, int64_t height, int64_t width, double clip_limit,
                        int64_t rows, int64_t columns) {
  static const LabTables tables;
  const int64_t pixels = height * width;
  LabParams p = {data,  data + pixels,        data + 2 * pixels,  pixels,
                 false, tables.linear.data(), tables.root.data(), tables.display.data()};
  run_plain(lab_stub, p);
  equalize(data, height, width, clip_limit, rows, columns);
  p.back = true;
  run_plain(lab_stub, p);
}

}  // namespace

void clahe(const PixelImage& image, double clip_limit, int64_t rows, int64_t columns) {
  std::vector<uint8_t> levels;
  auto* bytes = static_cast<uint8_t*>(image.data);
  const int64_t count = image.size(), pixels = image.height * image.width;
  const bool floats = image.dtype == DType::kFloat32;
  if (floats) {
    levels.resize(static_cast<size_t>(count));
    bytes = levels.data();
    const float* const from = static_cast<const float*>(image.data);
    for (int64_t i = 0; i < count; ++i) bytes[i] = rounded_level(from[i]);
  }
  if (image.channels == 3) {
    equalize_lightness(bytes, image.height, image.width, clip_limit, rows, columns);
  } else {
    for (int64_t c = 0; c < image.channels; ++c) {
      equalize(bytes + c * pixels, image.height, image.width, clip_limit, rows, columns);
    }
  }
  if (floats) {
    float* const to = static_cast<float*>(image.data);
    for (int64_t i = 0; i < count; ++i) to[i] = value_of_level<float>(bytes[i]);
  }
}

}  // namespace visops
