// The matrix units of a GPU in software, for csrc/cuda/mma.h; cuda_runtime.h includes it. NOTE [
// Matrix units ] says which lane holds what. A lane computes its sums from what the others hold, so
// that a wrong index of a fragment gives a wrong result, as on the hardware.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/element.h"

namespace cuda_emulation {

// How many numbers a word holds, and their values in float32.
struct Halves {
  static constexpr int kNumbers = 2;
  static float value(uint32_t word, int i) {
    return visops::half_to_float(static_cast<uint16_t>(word >> (16 * i)));
  }
};
struct BFloats {
  static constexpr int kNumbers = 2;
  static float value(uint32_t word, int i) {
    return visops::bit_cast<float>(word >> (16 * i) << 16);
  }
};
struct Floats {
  static constexpr int kNumbers = 1;
  // The hardware reads no more than TF32's bits.
  static float value(uint32_t word, int) { return visops::bit_cast<float>(word & 0xffffe000u); }
};

// As cvt.rna.tf32.f32: to the nearest, from the middle away from 0.
inline uint32_t to_tf32(float value) {
  const uint32_t bits = visops::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffe000u;
  return (bits + 0x1000u) & 0xffffe000u;
}

// What lane 8 * matrix + lane / 4 handed over: the start of the calling lane's row of that matrix.
template <class Row>
const Row* row_of_lane(const Row* own, int matrix, VISOPS_SITE) {
  const unsigned lane = scheduler().lane();
  return exchange(0xffffffffu, own, 8 * static_cast<unsigned>(matrix) + lane / 4, {file, line});
}

template <class Numbers>
VISOPS_UNCHECKED void multiply_matrices(float (&sum)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2], VISOPS_SITE) {
  struct Fragments {
    uint32_t a[4], b[2];
  };
  static thread_local Fragments of_threads[1024];  // of a block
  check::Quiet quiet;
  Scheduler& s = scheduler();
  Fragments* const warp = of_threads + here().thread.x / 32 * 32;
  const unsigned lane = s.lane();
  std::memcpy(warp[lane].a, a, sizeof(a));
  std::memcpy(warp[lane].b, b, sizeof(b));
  s.sync_warp(0xffffffffu, {file, line}, false);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (unsigned word = 0; word < 8; ++word) {
      const uint32_t left = warp[row % 8 * 4 + word % 4].a[row / 8 + word / 4 * 2];
      const uint32_t right = warp[column * 4 + word % 4].b[word / 4];
      for (int n = 0; n < Numbers::kNumbers; ++n) {
        sum[i] += Numbers::value(left, n) * Numbers::value(right, n);
      }
    }
  }
  s.sync_warp(0xffffffffu, {file, line}, false);  // all have read
}

}  // namespace cuda_emulation
