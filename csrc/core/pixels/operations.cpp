// NOTE: uint8 values go through float32 as torchvision's do, and are cut off, not rounded, where
// theirs are. Where a result depends on a pixel's own value alone, it is looked up in a table of
// 256.
#include "core/pixels/operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace visops {
namespace {

using Table = std::array<uint8_t, 256>;

constexpr float kGreyWeights[3] = {0.2989f, 0.587f, 0.114f};

uint8_t cut_off(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

template <class Value>
Table table_of(const Value& value) {
  Table table;
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = value(i);
  return table;
}

void look_up(const Table& table, uint8_t* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i) data[i] = table[data[i]];
}

template <class T>
T* channel(const PixelImage& image, int64_t c) {
  return static_cast<T*>(image.data) + c * image.height * image.width;
}

float grey_of(float r, float g, float b) {
  return r * kGreyWeights[0] + g * kGreyWeights[1] + b * kGreyWeights[2];
}

// Calls with(grey, place) for every pixel; integers are rounded down.
template <class T, class With>
void for_grey(const PixelImage& image, const With& with) {
  const int64_t pixels = image.height * image.width;
  const T* const first = channel<T>(image, 0);
  if (image.channels < 3) {
    for (int64_t i = 0; i < pixels; ++i) with(static_cast<float>(first[i]), i);
    return;
  }
  const T *const g = first + pixels, *const b = g + pixels;
  for (int64_t i = 0; i < pixels; ++i) {
    const float grey =
        grey_of(static_cast<float>(first[i]), static_cast<float>(g[i]), static_cast<float>(b[i]));
    with(sizeof(T) == 1 ? std::floor(grey) : grey, i);
  }
}

float clamped(float value, float white) { return std::min(std::max(value, 0.0f), white); }

template <class T>
T stored(float value) {
  if constexpr (sizeof(T) == 1) {
    return cut_off(value);
  } else {
    return clamped(value, 1.0f);
  }
}

template <class T>
void brightness(const PixelImage& image, float factor) {
  T* const data = static_cast<T*>(image.data);
  if constexpr (sizeof(T) == 1) {
    look_up(table_of([&](int i) { return cut_off(static_cast<float>(i) * factor); }), data,
            image.size());
  } else {
    for (int64_t i = 0; i < image.size(); ++i) data[i] = clamped(data[i] * factor, 1.0f);
  }
}

template <class T>
void contrast(const PixelImage& image, double factor) {
  double sum = 0.0;
  for_grey<T>(image, [&](float grey, int64_t) { sum += static_cast<double>(grey); });
  const float mean = static_cast<float>(sum / static_cast<double>(image.height * image.width));
  const float ratio = static_cast<float>(factor), rest = static_cast<float>(1.0 - factor) * mean;
  T* const data = static_cast<T*>(image.data);
  if constexpr (sizeof(T) == 1) {
    look_up(table_of([&](int i) { return cut_off(static_cast<float>(i) * ratio + rest); }), data,
            image.size());
  } else {
    for (int64_t i = 0; i < image.size(); ++i) data[i] = clamped(data[i] * ratio + rest, 1.0f);
  }
}

template <class T>
void saturation(const PixelImage& image, double factor) {
  if (image.channels < 3) return;
  const float ratio = static_cast<float>(factor), rest = static_cast<float>(1.0 - factor);
  T* const data = static_cast<T*>(image.data);
  const int64_t pixels = image.height * image.width;
  for_grey<T>(image, [&](float grey, int64_t i) {
    for (int64_t c = 0; c < 3; ++c) {
      T& value = data[c * pixels + i];
      value = stored<T>(static_cast<float>(value) * ratio + grey * rest);
    }
  });
}

template <class T>
void sharpness(const PixelImage& image, double factor, T* before) {
  if (image.height <= 2 || image.width <= 2) return;
  const float rest = static_cast<float>(1.0 - factor);
  const int64_t width = image.width;
  std::memcpy(before, image.data, static_cast<size_t>(image.size()) * sizeof(T));
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 1; y + 1 < image.height; ++y) {
      const T* const row = before + (c * image.height + y) * width;
      T* const out = channel<T>(image, c) + y * width;
      const T *const above = row - width, *const below = row + width;
      for (int64_t x = 1; x + 1 < width; ++x) {
        const auto sum_of = [x](const T* r) {
          using Sum = std::conditional_t<sizeof(T) == 1, int, float>;
          return static_cast<Sum>(r[x - 1]) + static_cast<Sum>(r[x]) + static_cast<Sum>(r[x + 1]);
        };
        const auto sum = sum_of(above) + sum_of(row) + sum_of(below) + 4 * row[x];
        float blurred = static_cast<float>(sum) * (1.0f / 13.0f);
        if constexpr (sizeof(T) == 1) blurred = std::nearbyint(blurred);
        const float own = static_cast<float>(row[x]);
        out[x] = stored<T>(own + rest * (blurred - own));
      }
    }
  }
}

template <class T>
void posterize(const PixelImage& image, int bits) {
  T* const data = static_cast<T*>(image.data);
  if constexpr (sizeof(T) == 1) {
    if (bits >= 8) return;
    const uint8_t mask = static_cast<uint8_t>(((1 << bits) - 1) << (8 - bits));
    for (int64_t i = 0; i < image.size(); ++i) data[i] &= mask;
  } else {
    const float levels = static_cast<float>(1 << bits);
    for (int64_t i = 0; i < image.size(); ++i) {
      data[i] = std::clamp(std::floor(data[i] * levels), 0.0f, levels - 1.0f) * (1.0f / levels);
    }
  }
}

template <class T>
void solarize(const PixelImage& image, double threshold) {
  T* const data = static_cast<T*>(image.data);
  if constexpr (sizeof(T) == 1) {
    const float least = static_cast<float>(threshold);  // as torch compares
    look_up(table_of([&](int i) {
              return static_cast<uint8_t>(static_cast<float>(i) >= least ? 255 - i : i);
            }),
            data, image.size());
  } else {
    const float least = static_cast<float>(threshold);
    for (int64_t i = 0; i < image.size(); ++i) {
      if (data[i] >= least) data[i] = 1.0f - data[i];
    }
  }
}

template <class T>
void invert(const PixelImage& image) {
  T* const data = static_cast<T*>(image.data);
  for (int64_t i = 0; i < image.size(); ++i) {
    if constexpr (sizeof(T) == 1) {
      data[i] = static_cast<uint8_t>(255 - data[i]);
    } else {
      data[i] = 1.0f - data[i];
    }
  }
}

template <class T>
void autocontrast(const PixelImage& image) {
  const int64_t pixels = image.height * image.width;
  constexpr float kWhite = sizeof(T) == 1 ? 255.0f : 1.0f;
  for (int64_t c = 0; c < image.channels; ++c) {
    T* const data = channel<T>(image, c);
    const auto [least, most] = std::minmax_element(data, data + pixels);
    const float low = static_cast<float>(*least), high = static_cast<float>(*most);
    if (!(low < high)) continue;
    const float scale = (high - low) * (1.0f / kWhite);
    const auto value = [&](float v) { return (v - low) / scale; };
    if constexpr (sizeof(T) == 1) {
      look_up(table_of([&](int i) { return cut_off(value(static_cast<float>(i))); }), data, pixels);
    } else {
      for (int64_t i = 0; i < pixels; ++i) data[i] = clamped(value(data[i]), 1.0f);
    }
  }
}

// Pillow's scheme. False: the channel has too few levels and stays as it is.
bool equalizing_table(const uint8_t* data, int64_t pixels, Table& table) {
  // Four histograms: equal neighbours would wait for each other.
  std::array<std::array<int64_t, 256>, 4> parts = {};
  int64_t i = 0;
  for (; i + 4 <= pixels; i += 4) {
    for (size_t k = 0; k < 4; ++k) ++parts[k][data[i + static_cast<int64_t>(k)]];
  }
  for (; i < pixels; ++i) ++parts[0][data[i]];
  std::array<int64_t, 256> counts;
  int64_t last = 0;
  for (size_t v = 0; v < 256; ++v) {
    counts[v] = parts[0][v] + parts[1][v] + parts[2][v] + parts[3][v];
    if (counts[v] > 0) last = counts[v];
  }
  const int64_t step = (pixels - last) / 255;
  if (step == 0) return false;
  int64_t sum = step / 2;
  for (size_t v = 0; v < 256; ++v) {
    table[v] = static_cast<uint8_t>(std::min<int64_t>(sum / step, 255));
    sum += counts[v];
  }
  table[0] = 0;
  return true;
}

void equalize(const PixelImage& image, void* scratch) {
  const int64_t pixels = image.height * image.width;
  Table table;
  for (int64_t c = 0; c < image.channels; ++c) {
    if (image.dtype == DType::kUInt8) {
      uint8_t* const data = channel<uint8_t>(image, c);
      if (equalizing_table(data, pixels, table)) look_up(table, data, pixels);
      continue;
    }
    // Floating values take the levels of uint8: those whose integers they round down to.
    float* const data = channel<float>(image, c);
    uint8_t* const levels = static_cast<uint8_t*>(scratch);
    for (int64_t i = 0; i < pixels; ++i) levels[i] = cut_off(data[i] * (256.0f - 1e-3f));
    if (equalizing_table(levels, pixels, table)) look_up(table, levels, pixels);
    for (int64_t i = 0; i < pixels; ++i) data[i] = static_cast<float>(levels[i]) / 255.0f;
  }
}

template <class T>
void gamma(const PixelImage& image, float exponent) {
  T* const data = static_cast<T*>(image.data);
  if constexpr (sizeof(T) == 1) {
    look_up(table_of([&](int i) {
              return cut_off(std::pow(static_cast<float>(i) / 255.0f, exponent) * (256.0f - 1e-3f));
            }),
            data, image.size());
  } else {
    for (int64_t i = 0; i < image.size(); ++i) data[i] = std::pow(data[i], exponent);
  }
}

template <class T>
void run(const PixelOperation& operation, const PixelImage& image, void* scratch) {
  const float amount = static_cast<float>(operation.amount);
  switch (operation.kind) {
    case PixelKind::kBrightness: return brightness<T>(image, amount);
    case PixelKind::kContrast: return contrast<T>(image, operation.amount);
    case PixelKind::kSaturation: return saturation<T>(image, operation.amount);
    case PixelKind::kSharpness:
      return sharpness<T>(image, operation.amount, static_cast<T*>(scratch));
    case PixelKind::kPosterize: return posterize<T>(image, static_cast<int>(operation.amount));
    case PixelKind::kSolarize:
      return solarize<T>(image, operation.amount * (sizeof(T) == 1 ? 255.0 : 1.0));
    case PixelKind::kSolarizeAt: return solarize<T>(image, operation.amount);
    case PixelKind::kAutocontrast: return autocontrast<T>(image);
    case PixelKind::kEqualize: return equalize(image, scratch);
    case PixelKind::kInvert: return invert<T>(image);
    case PixelKind::kGamma: return gamma<T>(image, amount);
    default: return;
  }
}

}  // namespace

void run_pixel_operation(const PixelOperation& operation, const PixelImage& image, void* scratch) {
  if (image.size() == 0) return;
  if (image.dtype == DType::kUInt8) return run<uint8_t>(operation, image, scratch);
  run<float>(operation, image, scratch);
}

}  // namespace visops
