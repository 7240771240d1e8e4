// Random numbers of pixels in vectors: NOTE [ Places of random numbers ] (core/pixels/random.h).
// Counters run side by side, and no step depends on a value.
#pragma once

#include "core/pixels/random.h"
#include "cpu/simd/half_products.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
