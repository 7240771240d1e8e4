// Philox 4x64 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011): random bits as a function of a key and a counter. The stream is numpy.random.Philox's.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {

struct PhiloxBlock {
  uint64_t word[4];
};

// The upper half of a product of 64-bit numbers.
VISOPS_FN uint64_t multiply_high(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#elif defined(__SIZEOF_INT128__)
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
    const uint64_t a = counter.word[0], b = counter.word[2];
    counter = {{multiply_high(b, kTwo) ^ counter.word[1] ^ key0, b * kTwo,
                multiply_high(a, kOne) ^ counter.word[3] ^ key1, a * kOne}};
    key0 += 0x9E3779B97F4A7C15u;
    key1 += 0xBB67AE8584CAA73Bu;
  }
  return counter;
}

// Number `index` of uniform numbers: its 64 bits are word index % 4 of this block.
VISOPS_FN PhiloxBlock uniform_block(uint64_t seed, uint64_t epoch, uint64_t sample, uint64_t stream,
                                    int64_t index) {
  // NumPy counts before it draws, so blocks begin at 1.
  return philox(seed, epoch, {{static_cast<uint64_t>(index / 4) + 1, sample, stream, 0}});
}

// A key of 53 bits, which travels as a number in [0, 1).
VISOPS_FN uint64_t key_of(double unit) { return static_cast<uint64_t>(unit * 0x1p53); }

// The bits of a key's random number. Picked by comparisons: an index would put the block in memory.
VISOPS_FN uint64_t key_bits(uint64_t key, int64_t index) {
  const PhiloxBlock block = uniform_block(key, 0, 0, 0, index);
  const int64_t word = index % 4;
  return word < 2 ? (word == 0 ? block.word[0] : block.word[1])
                  : (word == 2 ? block.word[2] : block.word[3]);
}

// A number in [0, 1), a multiple of 2^-53.
VISOPS_FN double uniform_of(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// One sample's uniform numbers, in any order.
class Uniforms {
 public:
  Uniforms(uint64_t seed, uint64_t epoch, uint64_t index, uint64_t stream = 0)
      : seed_(seed), epoch_(epoch), index_(index), stream_(stream) {}

  uint64_t bits(int64_t index) {
    if (index / 4 != block_) {
      words_ = uniform_block(seed_, epoch_, index_, stream_, index);
      block_ = index / 4;
    }
    return words_.word[index % 4];
  }
  double operator[](int64_t index) { return uniform_of(bits(index)); }

 private:
  uint64_t seed_, epoch_, index_, stream_;
  int64_t block_ = -1;
  PhiloxBlock words_ = {};
};

}  // namespace visops
