// Philox 4x64 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011): random bits as a function of a key and a counter. The stream is numpy.random.Philox's.
#pragma once

#include <array>
#include <cstdint>

#include "core/platform.h"

namespace visops {

using PhiloxBlock = std::array<uint64_t, 4>;

// The upper half of a product of 64-bit numbers.
VISOPS_FN uint64_t multiply_high(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
#else
  const uint64_t mask = 0xffffffffu;
  const uint64_t low = (a & mask) * (b & mask), ab = (a >> 32) * (b & mask);
  const uint64_t ba = (a & mask) * (b >> 32) + (low >> 32);
  return (a >> 32) * (b >> 32) + (ba >> 32) + (((ba & mask) + ab) >> 32);
#endif
}

VISOPS_FN PhiloxBlock philox(uint64_t key0, uint64_t key1, PhiloxBlock counter) {
  for (int round = 0; round < 10; ++round) {
    constexpr uint64_t kOne = 0xD2E7470EE14C6C93u, kTwo = 0xCA5A826395121157u;
    counter = {multiply_high(counter[2], kTwo) ^ counter[1] ^ key0, counter[2] * kTwo,
               multiply_high(counter[0], kOne) ^ counter[3] ^ key1, counter[0] * kOne};
    key0 += 0x9E3779B97F4A7C15u;
    key1 += 0xBB67AE8584CAA73Bu;
  }
  return counter;
}

// One sample's uniform numbers in [0, 1), multiples of 2^-53, in any order.
class Uniforms {
 public:
  Uniforms(uint64_t seed, uint64_t epoch, uint64_t index, uint64_t stream = 0)
      : seed_(seed), epoch_(epoch), index_(index), stream_(stream) {}

  double operator[](int64_t index) {
    const int64_t block = index / 4;
    if (block != block_) {
      // NumPy counts before it draws, so blocks begin at 1.
      words_ = philox(seed_, epoch_, {static_cast<uint64_t>(block) + 1, index_, stream_, 0});
      block_ = block;
    }
    return static_cast<double>(words_[static_cast<size_t>(index % 4)] >> 11) * 0x1p-53;
  }

 private:
  uint64_t seed_, epoch_, index_, stream_;
  int64_t block_ = -1;
  PhiloxBlock words_ = {};
};

}  // namespace visops
