// Pixel operations on the CPU.
//
// NOTE [ Pixel operations on the CPU ]
// The arithmetic is that of core/pixels/operations.h. Where a result depends on a pixel's own value
// alone, uint8 is looked up in a table of 256: NOTE [ Tables of bytes ]. Loops take their bounds
// and pointers into local variables: a store of bytes may change anything else, as far as the
// compiler knows. They round by way of int, which vectorizes. An image is one thread's work.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "core/numbers/elementary.h"
#include "core/pixels/colors/hsv.h"
#include "core/pixels/filters/neighbourhoods.h"
#include "core/pixels/operations.h"
#include "core/platform.h"
#include "cpu/lane_sum.h"

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#endif

#include "cpu/simd/arm.h"

namespace visops {
namespace {

// Tables of 256 bytes, looked up a vector at a time.
//
// NOTE [ Tables of bytes ]
// No instruction looks up 256 entries. With AVX-512, four shuffles of words find the pair that an
// index's upper seven bits name, and a shift takes its byte. With AVX2, each shuffle has the 16
// entries that share an index's upper four bits. It gives 0 where an index's highest bit is set,
// and ignores the three bits below that. So 16 is subtracted from step to step, and step h adds, by
// exclusive or, the difference of its entries and the last step's. NEON looks up 64 entries at a
// time, and leaves a byte as it is where the index is larger.

#if VISOPS_ISA_SLOT == 2
class ByteTable {
 public:
  static constexpr int kBytes = 64;

  explicit ByteTable(const uint8_t* table) {
    for (int k = 0; k < 4; ++k) pairs_[k] = _mm512_loadu_si512(table + 64 * k);
  }

  VISOPS_ALWAYS_INLINE void look_up(uint8_t* data) const {
    const __m512i index = _mm512_loadu_si512(data), byte = _mm512_set1_epi16(255);
    const __m512i even = entries(_mm512_and_si512(index, byte));
    const __m512i odd = entries(_mm512_srli_epi16(index, 8));
    const __m512i found = _mm512_or_si512(_mm512_and_si512(even, byte), _mm512_slli_epi16(odd, 8));
    _mm512_storeu_si512(data, found);
  }

 private:
  // The lower bytes of words, from indices in words.
  VISOPS_ALWAYS_INLINE __m512i entries(__m512i index) const {
    const __m512i pair = _mm512_srli_epi16(index, 1);
    const __m512i low = _mm512_permutex2var_epi16(pairs_[0], pair, pairs_[1]);
    const __m512i high = _mm512_permutex2var_epi16(pairs_[2], pair, pairs_[3]);
    const __mmask32 is_high = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
    const __m512i second = _mm512_and_si512(index, _mm512_set1_epi16(1));
    return _mm512_srlv_epi16(_mm512_mask_blend_epi16(is_high, low, high),
                             _mm512_slli_epi16(second, 3));
  }

  __m512i pairs_[4];
};
#elif VISOPS_ISA_SLOT == 1
class ByteTable {
 public:
  static constexpr int kBytes = 128;

  explicit ByteTable(const uint8_t* table) {
    __m128i last = _mm_setzero_si128();
    for (int h = 0; h < 16; ++h) {
      const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table) + h);
      steps_[h] = _mm256_broadcastsi128_si256(h % 8 == 0 ? entries : _mm_xor_si128(entries, last));
      last = entries;
    }
  }

  VISOPS_ALWAYS_INLINE void look_up(uint8_t* data) const {
    auto* const vectors = reinterpret_cast<__m256i*>(data);
    __m256i low[kVectors], high[kVectors], found[kVectors];
    for (int k = 0; k < kVectors; ++k) {
      low[k] = _mm256_loadu_si256(vectors + k);
      high[k] = _mm256_xor_si256(low[k], _mm256_set1_epi8(-128));
      found[k] = _mm256_setzero_si256();
    }
    for (int h = 0; h < 8; ++h) {
      for (int k = 0; k < kVectors; ++k) {
        found[k] = _mm256_xor_si256(found[k], _mm256_shuffle_epi8(steps_[h], low[k]));
        found[k] = _mm256_xor_si256(found[k], _mm256_shuffle_epi8(steps_[8 + h], high[k]));
        low[k] = _mm256_subs_epi8(low[k], _mm256_set1_epi8(16));
        high[k] = _mm256_subs_epi8(high[k], _mm256_set1_epi8(16));
      }
    }
    for (int k = 0; k < kVectors; ++k) _mm256_storeu_si256(vectors + k, found[k]);
  }

 private:
  static constexpr int kVectors = kBytes / 32;
  __m256i steps_[16];
};
#elif VISOPS_NEON
class ByteTable {
 public:
  static constexpr int kBytes = 16;

  explicit ByteTable(const uint8_t* table) {
    for (int k = 0; k < 4; ++k) {
      for (int i = 0; i < 4; ++i) parts_[k].val[i] = vld1q_u8(table + 64 * k + 16 * i);
    }
  }

  VISOPS_ALWAYS_INLINE void look_up(uint8_t* data) const {
    uint8x16_t index = vld1q_u8(data), found = vqtbl4q_u8(parts_[0], index);
    for (int k = 1; k < 4; ++k) {
      index = vsubq_u8(index, vdupq_n_u8(64));
      found = vqtbx4q_u8(found, parts_[k], index);
    }
    vst1q_u8(data, found);
  }

 private:
  uint8x16x4_t parts_[4];
};
#else
class ByteTable {
 public:
  static constexpr int kBytes = 1;
  explicit ByteTable(const uint8_t* table) : table_(table) {}
  VISOPS_ALWAYS_INLINE void look_up(uint8_t* data) const { *data = table_[*data]; }

 private:
  const uint8_t* table_;
};
#endif

// Replaces bytes by their entries in a table of 256.
inline void look_up(const uint8_t* table, uint8_t* data, int64_t count) {
  const ByteTable vectors(table);
  int64_t i = 0;
  for (; i + ByteTable::kBytes <= count; i += ByteTable::kBytes) vectors.look_up(data + i);
  for (; i < count; ++i) data[i] = table[data[i]];
}

// Powers of floating values.
//
// NOTE [ Powers on the CPU ]
// power_of() for chunks of positive, finite values, in vectors of float64: log2_of() without a
// jump, and exp_in_range(), whose range no such value leaves for exponents of usual size. The same
// operations in the same order, so the same bits. The few others are computed by themselves.

constexpr int kChunk = 64;
constexpr float kMostExponent = 6.0f;  // 6 x 149 x ln 2 is less than what exp_in_range() takes

// log2_of(), without a jump.
VISOPS_ALWAYS_INLINE double log2_in_vectors(double x) {
  const auto bits = bit_cast<uint64_t>(x);
  // An integer as a double: 2^52 and what is added to it, less 2^52 and the exponent's bias.
  double exponent = bit_cast<double>((bits >> 52) | 0x4330000000000000) - 4503599627371519.0;
  double m = bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  const bool large = m > 1.4142135623730951;
  m = large ? m * 0.5 : m;
  exponent = large ? exponent + 1.0 : exponent;
  return log2_of_parts(m, exponent);
}

VISOPS_ALWAYS_INLINE bool is_plain(float value) { return value > 0.0f && value < INFINITY; }

inline void power_chunk(float* data, float exponent) {
  const auto by = static_cast<double>(exponent);
  float powers[kChunk];
  int others = 0;
  for (int i = 0; i < kChunk; ++i) others += is_plain(data[i]) ? 0 : 1;
  for (int i = 0; i < kChunk; ++i) {
    const double base = is_plain(data[i]) ? static_cast<double>(data[i]) : 1.0;
    powers[i] = static_cast<float>(exp_in_range(log2_in_vectors(base) * by * kLn2));
  }
  for (int i = 0; others > 0 && i < kChunk; ++i) {
    if (!is_plain(data[i])) powers[i] = power_of(data[i], exponent);
  }
  for (int i = 0; i < kChunk; ++i) data[i] = powers[i];
}

// power_of() (core/pixels/operations.h) of each value.
inline void raise_to(float exponent, float* data, int64_t count) {
  int64_t i = 0;
  const bool usual = exponent <= kMostExponent && exponent >= -kMostExponent;
  if (usual && exponent != 0.0f) {
    for (; i + kChunk <= count; i += kChunk) power_chunk(data + i, exponent);
  }
  for (; i < count; ++i) data[i] = power_of(data[i], exponent);
}

struct Table {
  uint8_t entry[256];
};

template <class Value>
Table table_of(const Value& value) {
  Table table;
  for (int i = 0; i < 256; ++i) table.entry[i] = value(i);
  return table;
}

void look_up(const Table& table, uint8_t* data, int64_t count) {
  look_up(table.entry, data, count);
}

template <class T>
T* channel(const PixelImage& image, int64_t c) {
  return static_cast<T*>(image.data) + c * image.height * image.width;
}

// The sum of `count` values, of lanes: NOTE [ Lane sums ] (core/numbers/lane_sum.h).
template <class Value>
double lane_sum(int64_t count, const Value& value) {
  double lanes[kSumLanes] = {};
  for (int64_t begin = 0; begin < count; begin += kSumLanes) {
    const int64_t some = least(kSumLanes, count - begin);
    for (int64_t j = 0; j < some; ++j) lanes[j] += static_cast<double>(value(begin + j));
  }
  return sum_lanes(lanes);
}

// Sums integers, whose order doesn't matter; parts are small enough for an int.
template <class Value>
int64_t integer_sum(int64_t count, const Value& value) {
  int64_t sum = 0;
  for (int64_t begin = 0; begin < count; begin += 4096) {
    const int64_t end = least(begin + 4096, count);
    int part = 0;
    for (int64_t i = begin; i < end; ++i) part += value(i);
    sum += part;
  }
  return sum;
}

// Row by row, so that GPUs can share the work. One channel is grey itself.
template <class T>
double grey_sum(const PixelImage& image) {
  const int64_t pixels = image.height * image.width;
  const T* const r = channel<T>(image, 0);
  const bool is_grey = image.channels < 3;
  const T *const g = is_grey ? r : r + pixels, *const b = is_grey ? r : g + pixels;
  if constexpr (sizeof(T) == 1) {
    return static_cast<double>(integer_sum(pixels, [=](int64_t i) {
      const float level =
          grey_of(static_cast<float>(r[i]), static_cast<float>(g[i]), static_cast<float>(b[i]));
      return is_grey ? r[i] : static_cast<int>(level);
    }));
  } else {
    double sum = 0.0;
    for (int64_t begin = 0; begin < pixels; begin += image.width) {
      sum += lane_sum(image.width, [=](int64_t i) {
        const int64_t at = begin + i;
        return is_grey ? r[at] : grey_of(r[at], g[at], b[at]);
      });
    }
    return sum;
  }
}

template <class T>
void brightness(const PixelImage& image, float factor) {
  T* const data = static_cast<T*>(image.data);
  const int64_t count = image.size();
  if constexpr (sizeof(T) == 1) {
    look_up(table_of([&](int i) { return cut_off(static_cast<float>(i) * factor); }), data, count);
  } else {
    for (int64_t i = 0; i < count; ++i) data[i] = clamped(data[i] * factor, 1.0f);
  }
}

template <class T>
void contrast(const PixelImage& image, double factor) {
  const double pixels = static_cast<double>(image.height * image.width);
  const float mean = static_cast<float>(grey_sum<T>(image) / pixels);
  const float ratio = static_cast<float>(factor), rest = static_cast<float>(1.0 - factor) * mean;
  T* const data = static_cast<T*>(image.data);
  const int64_t count = image.size();
  if constexpr (sizeof(T) == 1) {
    look_up(table_of([&](int i) { return cut_off(static_cast<float>(i) * ratio + rest); }), data,
            count);
  } else {
    for (int64_t i = 0; i < count; ++i) data[i] = clamped(data[i] * ratio + rest, 1.0f);
  }
}

// change(r, g, b) for the colours of an image, in place; others have none.
template <class T, class Change>
VISOPS_ALWAYS_INLINE void each_color(const PixelImage& image, const Change& change) {
  if (image.channels < 3) return;
  const int64_t pixels = image.height * image.width;
  T* VISOPS_RESTRICT const r = channel<T>(image, 0);
  T* VISOPS_RESTRICT const g = r + pixels;
  T* VISOPS_RESTRICT const b = g + pixels;
  for (int64_t i = 0; i < pixels; ++i) change(r[i], g[i], b[i]);
}

template <class T>
void saturation(const PixelImage& image, double factor) {
  const float ratio = static_cast<float>(factor), rest = static_cast<float>(1.0 - factor);
  each_color<T>(image, [=](T& r, T& g, T& b) { saturate(r, g, b, ratio, rest); });
}

template <class T>
void bleaching(const PixelImage& image, float factor, double dark) {
  const float least = static_cast<float>(dark * (sizeof(T) == 1 ? 255.0 : 1.0));
  each_color<T>(image, [=](T& r, T& g, T& b) { bleach(r, g, b, factor, least); });
}

template <class T>
void tone_curves(const PixelImage& image, double deviation, const double* more) {
  const bool per_channel = more[0] != 0.0;
  const auto key = key_of(more[1]);
  const int64_t count = per_channel ? image.height * image.width : image.size();
  for (int64_t c = 0; c < (per_channel ? image.channels : 1); ++c) {
    const ToneCurve curve = tone_curve(deviation, key, c);
    T* const data = channel<T>(image, c);
    if constexpr (sizeof(T) == 1) {
      look_up(table_of([&](int i) { return toned(static_cast<T>(i), curve); }), data, count);
    } else {
      for (int64_t i = 0; i < count; ++i) data[i] = toned(data[i], curve);
    }
  }
}

template <class T>
void sharpness(const PixelImage& image, double factor, T* before) {
  if (image.height <= 2 || image.width <= 2) return;
  const float rest = static_cast<float>(1.0 - factor);
  const int64_t width = image.width;
  std::memcpy(before, image.data, static_cast<size_t>(image.size()) * sizeof(T));
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 1; y + 1 < image.height; ++y) {
      const T* VISOPS_RESTRICT const row = before + (c * image.height + y) * width;
      const T* VISOPS_RESTRICT const above = row - width;
      const T* VISOPS_RESTRICT const below = row + width;
      T* VISOPS_RESTRICT const out = channel<T>(image, c) + y * width;
      for (int64_t x = 1; x + 1 < width; ++x) {
        out[x] = sharpened(above + x, row + x, below + x, rest);
      }
    }
  }
}

constexpr int kMorphChunk = 1024;

template <bool kDilates, class T>
VISOPS_ALWAYS_INLINE void choose(T* VISOPS_RESTRICT to, const T* VISOPS_RESTRICT from,
                                 int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = chosen(to[i], from[i], kDilates);
}

// A part of row y, columns [begin, end), in place; `plane` is as it was. From the longest reach
// down: the rows of the ellipse that reach so far become one, of which each result takes the two
// pixels there.
template <bool kDilates, class T>
void morph_chunk(const Ellipse& ellipse, const T* plane, int64_t height, int64_t width, int64_t y,
                 int64_t begin, int64_t end, T* to) {
  T rows[kMorphChunk + 2 * kMostEllipseSide];
  const int64_t first = begin > ellipse.left ? begin - ellipse.left : 0;
  const int64_t last = least(end + ellipse.right, width), count = last - first;
  bool empty = true;
  for (int reach = ellipse.left; reach >= 0; --reach) {
    for (int i = 0; i < ellipse.height; ++i) {
      const int64_t row = y + i - ellipse.above;
      if (ellipse.reach[i] != reach || row < 0 || row >= height) continue;
      const T* const own = plane + row * width + first;
      if (empty) std::memcpy(rows, own, static_cast<size_t>(count) * sizeof(T));
      if (!empty) choose<kDilates>(rows, own, count);
      empty = false;
    }
    if (empty) continue;
    for (int64_t shift = -reach; shift <= least(reach, ellipse.right); shift += 2 * reach) {
      const int64_t from = begin + shift < 0 ? -shift : begin;
      const int64_t until = end + shift > width ? width - shift : end;
      choose<kDilates>(to + from, rows + (from + shift - first), until - from);
      if (reach == 0) break;
    }
  }
  for (int64_t x = begin; sizeof(T) > 1 && x < end; ++x) to[x] = one_zero(to[x]);
}

template <class T>
void morphology(const PixelImage& image, const PixelOperation& operation, T* before) {
  const Ellipse ellipse = ellipse_of(operation);
  const int64_t height = image.height, width = image.width;
  const auto run = operation.amount != 0.0 ? morph_chunk<true, T> : morph_chunk<false, T>;
  std::memcpy(before, image.data, static_cast<size_t>(image.size()) * sizeof(T));
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; x += kMorphChunk) {
        run(ellipse, before + c * height * width, height, width, y, x,
            least(x + kMorphChunk, width), channel<T>(image, c) + y * width);
      }
    }
  }
}

template <class T>
void posterize(const PixelImage& image, int bits) {
  T* const data = static_cast<T*>(image.data);
  const int64_t count = image.size();
  for (int64_t i = 0; i < count; ++i) data[i] = posterized(data[i], bits);
}

template <class T>
void solarize(const PixelImage& image, double threshold) {
  T* const data = static_cast<T*>(image.data);
  const int64_t count = image.size();
  const float least = static_cast<float>(threshold);  // as torch compares
  if constexpr (sizeof(T) == 1) {
    look_up(table_of([&](int i) { return solarized(static_cast<T>(i), least); }), data, count);
  } else {
    for (int64_t i = 0; i < count; ++i) data[i] = solarized(data[i], least);
  }
}

template <class T>
void solarize_add(const PixelImage& image, float levels) {
  T* const data = static_cast<T*>(image.data);
  const int64_t count = image.size();
  if constexpr (sizeof(T) == 1) {
    look_up(table_of([&](int i) { return solarize_added(static_cast<T>(i), levels); }), data,
            count);
  } else {
    for (int64_t i = 0; i < count; ++i) data[i] = solarize_added(data[i], levels);
  }
}

template <class T>
void invert(const PixelImage& image) {
  T* const data = static_cast<T*>(image.data);
  const int64_t count = image.size();
  for (int64_t i = 0; i < count; ++i) data[i] = inverted(data[i]);
}

template <class T>
struct Extremes {
  T least, most;
};

// Those of `count` values, NaN left out. Lanes keep extremes of their own, or compilers would
// compare floats one by one. Where the least is 0 or -0, it is the first of them.
template <class T>
Extremes<T> extremes_of(const T* data, int64_t count) {
  constexpr int kLanes = 64;
  T least[kLanes], most[kLanes];
  for (int j = 0; j < kLanes; ++j) {
    least[j] = highest<T>();
    most[j] = lowest<T>();
  }
  const auto take = [&](int j, T low, T high) {
    least[j] = low < least[j] ? low : least[j];
    most[j] = high > most[j] ? high : most[j];
  };
  const int64_t whole = count & -kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) take(j, data[i + j], data[i + j]);
  }
  for (int64_t i = whole; i < count; ++i) take(0, data[i], data[i]);
  for (int j = 1; j < kLanes; ++j) take(0, least[j], most[j]);
  for (int64_t i = 0; sizeof(T) > 1 && least[0] == T() && i < count; ++i) {
    if (data[i] != T()) continue;
    least[0] = data[i];
    break;
  }
  return {least[0], most[0]};
}

template <class T>
void autocontrast(const PixelImage& image) {
  const int64_t pixels = image.height * image.width;
  constexpr float kWhite = sizeof(T) == 1 ? 255.0f : 1.0f;
  for (int64_t c = 0; c < image.channels; ++c) {
    T* const data = channel<T>(image, c);
    const Extremes<T> found = extremes_of(data, pixels);
    const float low = static_cast<float>(found.least), high = static_cast<float>(found.most);
    if (!(low < high)) continue;
    const float scale = (high - low) * (1.0f / kWhite);
    if constexpr (sizeof(T) == 1) {
      look_up(table_of([&](int i) { return stretched(static_cast<T>(i), low, scale); }), data,
              pixels);
    } else {
      for (int64_t i = 0; i < pixels; ++i) data[i] = stretched(data[i], low, scale);
    }
  }
}

// Pillow's scheme. False: the channel has too few levels and stays as it is.
bool equalizing_table(const uint8_t* data, int64_t pixels, Table& table) {
  // Four histograms: equal neighbours would wait for each other.
  int64_t parts[4][256] = {}, counts[256];
  int64_t i = 0;
  for (; i + 4 <= pixels; i += 4) {
    for (int k = 0; k < 4; ++k) ++parts[k][data[i + k]];
  }
  for (; i < pixels; ++i) ++parts[0][data[i]];
  int64_t last = 0;
  for (int v = 0; v < 256; ++v) {
    counts[v] = parts[0][v] + parts[1][v] + parts[2][v] + parts[3][v];
    if (counts[v] > 0) last = counts[v];
  }
  const int64_t step = equalizing_step(pixels, last);
  if (step == 0) return false;
  int64_t below = 0;
  for (int v = 0; v < 256; ++v) {
    table.entry[v] = equalized(below, step, v);
    below += counts[v];
  }
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
    for (int64_t i = 0; i < pixels; ++i) levels[i] = cut_off(data[i] * kLevels);
    if (equalizing_table(levels, pixels, table)) look_up(table, levels, pixels);
    for (int64_t i = 0; i < pixels; ++i) data[i] = static_cast<float>(levels[i]) / 255.0f;
  }
}

template <class T>
void gamma(const PixelImage& image, float exponent) {
  T* const data = static_cast<T*>(image.data);
  const int64_t count = image.size();
  if constexpr (sizeof(T) == 1) {
    float power[256];  // gamma_of() of each level
    for (int i = 0; i < 256; ++i) power[i] = static_cast<float>(i) / 255.0f;
    raise_to(exponent, power, 256);
    look_up(table_of([&](int i) { return cut_off(power[i] * kLevels); }), data, count);
  } else {
    raise_to(exponent, data, count);
  }
}

template <class T>
void run(const PixelOperation& operation, const PixelImage& image, void* scratch) {
  const float amount = static_cast<float>(operation.amount);
  const int bits = static_cast<int>(operation.amount);
  switch (operation.kind) {
    case PixelKind::kBrightness: return brightness<T>(image, amount);
    case PixelKind::kContrast: return contrast<T>(image, operation.amount);
    case PixelKind::kSaturation: return saturation<T>(image, operation.amount);
    case PixelKind::kSharpness:
      return sharpness<T>(image, operation.amount, static_cast<T*>(scratch));
    case PixelKind::kPosterize: return posterize<T>(image, bits < 0 ? 0 : bits > 8 ? 8 : bits);
    case PixelKind::kSolarize:
      return solarize<T>(image, operation.amount * (sizeof(T) == 1 ? 255.0 : 1.0));
    case PixelKind::kSolarizeAt: return solarize<T>(image, operation.amount);
    case PixelKind::kSolarizeAdd: return solarize_add<T>(image, amount);
    case PixelKind::kAutocontrast: return autocontrast<T>(image);
    case PixelKind::kEqualize: return equalize(image, scratch);
    case PixelKind::kInvert: return invert<T>(image);
    case PixelKind::kGamma: return gamma<T>(image, amount);
    case PixelKind::kMorphology: return morphology(image, operation, static_cast<T*>(scratch));
    case PixelKind::kBleach: return bleaching<T>(image, amount, operation.more[0]);
    case PixelKind::kToneCurve: return tone_curves<T>(image, operation.amount, operation.more);
    default: return;
  }
}

void pixel_operation_kernel(const PixelOperationParams& p, Workspace&) {
  if (p.image.dtype == DType::kUInt8) return run<uint8_t>(p.operation, p.image, p.scratch);
  run<float>(p.operation, p.image, p.scratch);
}

const bool registered = pixel_operation_stub.set(kIsaSlot, pixel_operation_kernel);

}  // namespace
}  // namespace visops
