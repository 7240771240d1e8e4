// Noise on the CPU.
//
// NOTE [ Noise on the CPU ]
// A block of 128 random numbers at a time, then the arithmetic on them, both in loops that
// compilers vectorize. Split: by blocks. The arithmetic is that of core/pixels/noise.h.
#include <cstdint>

#include "core/dispatch/workspace.h"
#include "core/pixels/noise.h"
#include "core/pixels/random.h"

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "cpu/simd/arm.h"
#include "cpu/simd/vector.h"

namespace visops {
namespace {

// Products of 32-bit numbers in 64-bit lanes: GCC multiplies all 64 bits, in three times the work.

// The products of the lanes' lower halves and `factor`.
VISOPS_ALWAYS_INLINE Vector<uint64_t> multiply_halves(Vector<uint64_t> a, uint32_t factor) {
#if VISOPS_ISA_SLOT == 2
  const __m512i own = _mm512_set1_epi64(static_cast<int64_t>(factor));
  // GCC 12 warns of a variable in its own header without the mask.
  return {reinterpret_cast<Register<uint64_t>::type>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a.v), own))};
#elif VISOPS_ISA_SLOT == 1
  const __m256i own = _mm256_set1_epi64x(static_cast<int64_t>(factor));
  return {reinterpret_cast<Register<uint64_t>::type>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a.v), own))};
#elif VISOPS_NEON
  const uint32x2_t low = vmovn_u64(reinterpret_cast<uint64x2_t>(a.v));
  return {reinterpret_cast<Register<uint64_t>::type>(vmull_u32(low, vdup_n_u32(factor)))};
#elif defined(__SSE2__) && defined(__GNUC__)
  const __m128i own = _mm_set1_epi64x(static_cast<int64_t>(factor));
  return {reinterpret_cast<Register<uint64_t>::type>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a.v), own))};
#else
  uint64_t lane[Vector<uint64_t>::kCount];
  store_vector(lane, a);
  for (uint64_t& own : lane) own = (own & 0xffffffffu) * factor;
  return load_vector(lane);
#endif
}

// Random numbers of pixels in vectors: NOTE [ Places of random numbers ] (core/pixels/random.h).
// Counters run side by side, and no step depends on a value.

// 64 words; those of counter c are at c, 16 + c, 32 + c and 48 + c. Each is the lower half of a
// 64-bit lane, whose upper half is left over.
inline void random_words(uint64_t key, uint64_t block, uint32_t* words) {
  using Lanes = Vector<uint64_t>;
  constexpr int kSide = 2;  // vectors that are made side by side
  const uint64_t counter = block * kRandomLanes;
  for (int first = 0; first < kRandomLanes; first += kSide * Lanes::kCount) {
    Lanes a[kSide], b[kSide], c[kSide], d[kSide];
    for (int i = 0; i < kSide; ++i) {
      uint64_t own[Lanes::kCount];
      for (int k = 0; k < Lanes::kCount; ++k) {
        own[k] = counter + static_cast<uint64_t>(first + i * Lanes::kCount + k);
      }
      a[i] = load_vector(own);
      b[i] = broadcast(counter >> 32);
      c[i] = d[i] = broadcast(uint64_t{0});
    }
    RandomKey own_key = random_key(key);
    for (int round = 0; round < kRandomRounds; ++round) {
      for (int i = 0; i < kSide; ++i) {
        const Lanes p = multiply_halves(a[i], kFirstFactor),
                    q = multiply_halves(c[i], kSecondFactor);
        a[i] = (q >> 32) ^ b[i] ^ broadcast(uint64_t{own_key.low});
        b[i] = q;
        c[i] = (p >> 32) ^ d[i] ^ broadcast(uint64_t{own_key.high});
        d[i] = p;
      }
      own_key = next_key(own_key);
    }
    for (int i = 0; i < kSide; ++i) {
      const Lanes all[4] = {a[i], b[i], c[i], d[i]};
      for (int word = 0; word < 4; ++word) {
        uint64_t own[Lanes::kCount];
        store_vector(own, all[word]);
        uint32_t* const to = words + word * kRandomLanes + first + i * Lanes::kCount;
        for (int k = 0; k < Lanes::kCount; ++k) to[k] = static_cast<uint32_t>(own[k]);
      }
    }
  }
}

inline void random_units(uint64_t key, uint64_t block, float* units) {
  for (int half = 0; half < 2; ++half) {
    uint32_t words[kRandomWords];
    random_words(key, 2 * block + static_cast<uint64_t>(half), words);
    for (int i = 0; i < kRandomWords; ++i) units[half * kRandomWords + i] = unit_of(words[i]);
  }
}

// 128 numbers of mean 0 and variance 1.
inline void random_normals(uint64_t key, uint64_t block, float* normals) {
  uint32_t words[kRandomWords];
  random_words(key, block, words);
  for (int i = 0; i < kRandomWords; ++i) {
    const NormalPair pair = normals_of(words[i]);
    normals[i] = pair.first;
    normals[kRandomWords + i] = pair.second;
  }
}

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
