// Contrast limited adaptive histogram equalization, as cv2.createCLAHE.
//
// NOTE [ CLAHE ]
// Each tile has a histogram whose counts are cut at a limit, and what is cut is given to all
// levels; its running sum is a table. A pixel's value is interpolated between the tables of the
// four tiles around it. Images that tiles don't divide are extended by their mirror image, in both
// directions, as OpenCV does. (K. Zuiderveld, "Contrast limited adaptive histogram equalization",
// Graphics Gems IV, 1994.) Colours go through CIE Lab (core/pixels/lab.h): results may differ from
// OpenCV's by two levels.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/pixels/lab.h"
#include "core/pixels/neighbourhoods.h"
#include "core/plain_kernel.h"
#include "core/sampling.h"

namespace visops {

KernelStub<LabParams> lab_stub{"lab"};

namespace {

uint8_t rounded(float value) {
  uint8_t out;
  store_element(&out, value);
  return out;
}

struct Tiles {
  int64_t rows, columns, height, width;  // height and width of a tile
};

void fill_table(const uint8_t* data, int64_t image_height, int64_t image_width, const Tiles& tiles,
                int64_t row, int64_t column, int limit, uint8_t* table) {
  int counts[256] = {};
  for (int64_t y = row * tiles.height; y < (row + 1) * tiles.height; ++y) {
    const uint8_t* const line = data + pad_index(Padding::kReflect, y, image_height) * image_width;
    for (int64_t x = column * tiles.width; x < (column + 1) * tiles.width; ++x) {
      ++counts[line[x < image_width ? x : pad_index(Padding::kReflect, x, image_width)]];
    }
  }
  if (limit > 0) {
    int cut = 0;
    for (int& count : counts) {
      cut += std::max(count - limit, 0);
      count = std::min(count, limit);
    }
    const int share = cut / 256;
    int rest = cut - share * 256;
    for (int& count : counts) count += share;
    if (rest != 0) {
      const int step = std::max(256 / rest, 1);
      for (int i = 0; i < 256 && rest > 0; i += step, --rest) ++counts[i];
    }
  }
  const float scale = 255.0f / static_cast<float>(tiles.height * tiles.width);
  int sum = 0;
  for (int i = 0; i < 256; ++i) {
    sum += counts[i];
    table[i] = rounded(static_cast<float>(sum) * scale);
  }
}

void equalize(uint8_t* data, int64_t height, int64_t width, double clip_limit, int64_t rows,
              int64_t columns) {
  const bool whole = height % rows == 0 && width % columns == 0;
  const int64_t high = whole ? height : height + rows - height % rows;
  const int64_t wide = whole ? width : width + columns - width % columns;
  const Tiles tiles = {rows, columns, high / rows, wide / columns};
  const auto area = static_cast<double>(tiles.height * tiles.width);
  const int limit = clip_limit > 0.0 ? std::max(static_cast<int>(clip_limit * area / 256.0), 1) : 0;
  std::vector<uint8_t> tables(static_cast<size_t>(rows * columns * 256));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      fill_table(data, height, width, tiles, r, c, limit, tables.data() + (r * columns + c) * 256);
    }
  }
  struct Column {
    int64_t left, right;
    float share;
  };
  const auto between = [](int64_t at, int64_t side, int64_t count) {
    const float position = static_cast<float>(at) * (1.0f / static_cast<float>(side)) - 0.5f;
    const auto first = static_cast<int64_t>(std::floor(position));
    return Column{std::max<int64_t>(first, 0) * 256, std::min(first + 1, count - 1) * 256,
                  position - static_cast<float>(first)};
  };
  std::vector<Column> across;
  for (int64_t x = 0; x < width; ++x) across.push_back(between(x, tiles.width, columns));
  for (int64_t y = 0; y < height; ++y) {
    const Column down = between(y, tiles.height, rows);
    const uint8_t* const above = tables.data() + down.left * columns;
    const uint8_t* const below = tables.data() + down.right * columns;
    uint8_t* const line = data + y * width;
    for (int64_t x = 0; x < width; ++x) {
      const Column& own = across[static_cast<size_t>(x)];
      const int64_t left = own.left + line[x], right = own.right + line[x];
      const float rest = 1.0f - own.share;
      const float upper =
          static_cast<float>(above[left]) * rest + static_cast<float>(above[right]) * own.share;
      const float lower =
          static_cast<float>(below[left]) * rest + static_cast<float>(below[right]) * own.share;
      line[x] = rounded(upper * (1.0f - down.share) + lower * down.share);
    }
  }
}

template <class Function>
std::vector<float> table_of(int count, const Function& function) {
  std::vector<float> table;
  for (int i = 0; i < count; ++i) table.push_back(static_cast<float>(function(i)));
  return table;
}

struct LabTables {
  std::vector<float> linear = table_of(256, [](int i) {
    const double v = i / 255.0;
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  });
  std::vector<float> root = table_of(kLabSteps + 1, [](int i) {
    const double v = static_cast<double>(i) / kLabSteps;
    return v > 216.0 / 24389.0 ? std::cbrt(v) : (24389.0 / 27.0 * v + 16.0) / 116.0;
  });
  std::vector<float> display = table_of(kLabSteps + 1, [](int i) {
    const double v = static_cast<double>(i) / kLabSteps;
    return 255.0 * (v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1.0 / 2.4) - 0.055);
  });
};

void equalize_lightness(uint8_t* data, int64_t height, int64_t width, double clip_limit,
                        int64_t rows, int64_t columns) {
  static const LabTables tables;
  const int64_t pixels = height * width;
  LabParams p = {data,
                 data + pixels,
                 data + 2 * pixels,
                 false,
                 tables.linear.data(),
                 tables.root.data(),
                 tables.display.data()};
  plain_kernel(lab_stub)(p, 0, pixels);
  equalize(data, height, width, clip_limit, rows, columns);
  p.back = true;
  plain_kernel(lab_stub)(p, 0, pixels);
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
    for (int64_t i = 0; i < count; ++i) bytes[i] = rounded(from[i] * 255.0f);
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
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(bytes[i]) * (1.0f / 255.0f);
  }
}

}  // namespace visops
