// Noise on the CPU.
//
// NOTE [ Noise on the CPU ]
// A block of 128 random numbers at a time, then the arithmetic on them, both in loops that
// compilers vectorize. Split: by blocks. Poisson numbers are found by adding up probabilities from
// 0 on, in float64, until they pass a uniform number; expected counts above kMostCounted, where
// that takes long, by a normal number. Rounding: as torchvision, noise for uint8 is cut off to an
// integer before it is added; shot noise is rounded to the nearest.
#include "core/pixels/noise.h"

#include "core/elementary.h"
#include "cpu/random_words.h"

namespace visops {
namespace {

constexpr double kGamma = 2.2;
constexpr double kMostCounted = 64.0;

template <class Body>
inline void for_each_block(const NoiseParams& p, int64_t count, int64_t begin, int64_t end,
                           const Body& body) {
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kNoiseBlock;
    const int64_t left = count - first;
    body(first, left < kNoiseBlock ? static_cast<int>(left) : static_cast<int>(kNoiseBlock),
         static_cast<uint64_t>(block));
  }
  (void)p;
}

void fill_units(const NoiseParams& p, int64_t begin, int64_t end) {
  float* const data = static_cast<float*>(p.data);
  for_each_block(p, p.count, begin, end, [&](int64_t first, int count, uint64_t block) {
    float units[kRandomBlock];
    random_units(p.key, block, units);
    for (int i = 0; i < count; ++i) data[first + i] = units[i];
  });
}

template <class T>
void gaussian(const NoiseParams& p, int64_t begin, int64_t end) {
  T* const data = static_cast<T*>(p.data);
  const float white = sizeof(T) == 1 ? 255.0f : 1.0f;
  const float mean = static_cast<float>(p.first) * white;
  const float sigma = static_cast<float>(p.second) * white;
  for_each_block(p, p.count, begin, end, [&](int64_t first, int count, uint64_t block) {
    float noise[kRandomBlock];
    random_normals(p.key, block, noise);
    T own[kRandomBlock];
    T* VISOPS_RESTRICT const from = data + first;
    memcpy(own, from, static_cast<size_t>(count) * sizeof(T));
    for (int i = 0; i < kRandomBlock; ++i) {
      if constexpr (sizeof(T) == 1) {
        const int sum = own[i] + static_cast<int>(mean + noise[i] * sigma);
        const int inside = sum < 0 ? 0 : sum > 255 ? 255 : sum;
        own[i] = static_cast<T>(p.clip ? inside : sum);
      } else {
        const float sum = own[i] + (mean + noise[i] * sigma);
        const float above = sum < 0.0f ? 0.0f : sum;
        own[i] = p.clip ? (above > 1.0f ? 1.0f : above) : sum;
      }
    }
    memcpy(from, own, static_cast<size_t>(count) * sizeof(T));
  });
}

double power(double x, double exponent) {
  return x > 1e-300 ? exp_of(exponent * log2_of(x) * 0.6931471805599453) : 0.0;
}

// A number of photons where `rate` are expected and `none` is the probability of none.
double poisson(double rate, double none, double unit, double normal) {
  if (rate > kMostCounted) {
    const double near = nearest_integer(rate + sqrt(rate) * normal);
    return near > 0.0 ? near : 0.0;
  }
  double count = 0.0, share = none, sum = none;
  while (unit >= sum && count < 4.0 * kMostCounted) {
    count += 1.0;
    share *= rate / count;
    sum += share;
  }
  return count;
}

struct Photons {
  double rate, none;
};

Photons photons_of(double value, double scale) {
  const double inside = value > 0.0 ? value : 0.0;
  const double rate = (power(inside, kGamma) + scale * 1e-6) / scale;
  return {rate, exp_of(-rate)};
}

template <class T>
void shot(const NoiseParams& p, int64_t begin, int64_t end) {
  T* const data = static_cast<T*>(p.data);
  const double scale = p.first;
  Photons table[256];
  if constexpr (sizeof(T) == 1) {
    for (int i = 0; i < 256; ++i) table[i] = photons_of(i / 255.0, scale);
  }
  for_each_block(p, p.count, begin, end, [&](int64_t first, int count, uint64_t block) {
    float units[kRandomBlock], normals[kRandomBlock];
    random_units(p.key, block, units);
    random_normals(p.key, block + (uint64_t{1} << 40), normals);
    for (int i = 0; i < count; ++i) {
      T& value = data[first + i];
      Photons photons;
      if constexpr (sizeof(T) == 1) {
        photons = table[value];
      } else {
        photons = photons_of(static_cast<double>(value), scale);
      }
      const double seen =
          scale * poisson(photons.rate, photons.none, static_cast<double>(units[i]) + 2.98e-8,
                          static_cast<double>(normals[i]));
      const float out = static_cast<float>(power(seen < 1.0 ? seen : 1.0, 1.0 / kGamma));
      store_element(&value, sizeof(T) == 1 ? out * 255.0f : out);
    }
  });
}

template <class T>
void salt_and_pepper(const NoiseParams& p, int64_t begin, int64_t end) {
  T* const data = static_cast<T*>(p.data);
  const T white = static_cast<T>(sizeof(T) == 1 ? 255 : 1), black = 0;
  const float salt = static_cast<float>(p.first);
  const float either = static_cast<float>(p.first + p.second);
  for_each_block(p, p.plane, begin, end, [&](int64_t first, int count, uint64_t block) {
    float units[kRandomBlock];
    random_units(p.key, block, units);
    for (int64_t plane = 0; plane < p.count; plane += p.plane) {
      T* const own = data + plane + first;
      for (int i = 0; i < count; ++i) {
        const T other = units[i] < either ? black : own[i];
        own[i] = units[i] < salt ? white : other;
      }
    }
  });
}

template <class T>
void add_noise(const NoiseParams& p, int64_t begin, int64_t end) {
  switch (p.kind) {
    case NoiseKind::kGaussian: return gaussian<T>(p, begin, end);
    case NoiseKind::kShot: return shot<T>(p, begin, end);
    case NoiseKind::kSaltAndPepper: return salt_and_pepper<T>(p, begin, end);
    case NoiseKind::kUnit: return;
  }
}

void noise_kernel(const NoiseParams& p, int64_t begin, int64_t end) {
  if (p.kind == NoiseKind::kUnit) return fill_units(p, begin, end);
  if (p.dtype == DType::kUInt8) return add_noise<uint8_t>(p, begin, end);
  add_noise<float>(p, begin, end);
}

const bool registered = noise_stub.set(kIsaSlot, noise_kernel);

}  // namespace
}  // namespace visops
