// Random numbers of pixels in vectors: NOTE [ Places of random numbers ] (core/pixels/random.h).
// Sixteen counters run side by side, and no step depends on a value, so compilers vectorize all of
// it.
#pragma once

#include "core/pixels/random.h"

namespace visops {
namespace {

// 64 words; those of counter c are at c, 16 + c, 32 + c and 48 + c.
inline void random_words(uint64_t key, uint64_t block, uint32_t* words) {
  uint32_t a[kRandomLanes], b[kRandomLanes], c[kRandomLanes], d[kRandomLanes];
  const uint64_t first = block * kRandomLanes;
  for (int i = 0; i < kRandomLanes; ++i) {
    a[i] = static_cast<uint32_t>(first) + static_cast<uint32_t>(i);  // a multiple of 16, and less
    b[i] = static_cast<uint32_t>(first >> 32);
    c[i] = d[i] = 0;
  }
  RandomKey own = random_key(key);
  for (int round = 0; round < kRandomRounds; ++round) {
    VISOPS_NO_UNROLL
    for (int i = 0; i < kRandomLanes; ++i) random_round(own, a[i], b[i], c[i], d[i]);
    own = next_key(own);
  }
  for (int i = 0; i < kRandomLanes; ++i) {
    words[i] = a[i];
    words[kRandomLanes + i] = b[i];
    words[2 * kRandomLanes + i] = c[i];
    words[3 * kRandomLanes + i] = d[i];
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
