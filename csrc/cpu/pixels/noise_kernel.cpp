// Noise on the CPU.
//
// NOTE [ Noise on the CPU ]
// A block of 128 random numbers at a time, then the arithmetic on them, both in loops that
// compilers vectorize. Split: by blocks. The arithmetic is that of core/pixels/noise_values.h.
#include "core/pixels/noise_values.h"
#include "core/workspace.h"
#include "cpu/random_words.h"

namespace visops {
namespace {

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
      own[i] = with_gaussian(own[i], mean, sigma, noise[i], p.clip);
    }
    memcpy(from, own, static_cast<size_t>(count) * sizeof(T));
  });
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
      value = with_shot<T>(photons, scale, units[i], normals[i]);
    }
  });
}

template <class T>
void salt_and_pepper(const NoiseParams& p, int64_t begin, int64_t end) {
  T* const data = static_cast<T*>(p.data);
  const float salt = static_cast<float>(p.first);
  const float either = static_cast<float>(p.first + p.second);
  for_each_block(p, p.plane, begin, end, [&](int64_t first, int count, uint64_t block) {
    float units[kRandomBlock];
    random_units(p.key, block, units);
    for (int64_t plane = 0; plane < p.count; plane += p.plane) {
      T* const own = data + plane + first;
      for (int i = 0; i < count; ++i) {
        own[i] = with_salt_and_pepper(own[i], units[i], salt, either);
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

void change_blocks(const NoiseParams& p, int64_t begin, int64_t end) {
  if (p.kind == NoiseKind::kUnit) return fill_units(p, begin, end);
  if (p.dtype == DType::kUInt8) return add_noise<uint8_t>(p, begin, end);
  add_noise<float>(p, begin, end);
}

void noise_kernel(const NoiseParams& p, Workspace& workspace) {
  constexpr int64_t kGrainOfBlocks = 256;
  parallel_for(workspace, noise_blocks(p), kGrainOfBlocks,
               [&](int64_t begin, int64_t end) { change_blocks(p, begin, end); });
}

const bool registered = noise_stub.set(kIsaSlot, noise_kernel);

}  // namespace
}  // namespace visops
