// Noise: what fronts and kernels share.
//
// NOTE [ Noise ]
// The random number of a value depends on a key and on the value's place in its image, so results
// don't depend on threads, batches or instruction sets. Keys are 64 bits, of which a chain
// draws 53.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

enum class NoiseKind : int {
  kUnit,           // numbers in [0, 1), which replace the values
  kGaussian,       // adds first + second x a normal number, with white at 1
  kShot,           // photons: Poisson numbers times `first`, of values in linear light
  kSaltAndPepper,  // white with probability `first`, else black with `second`; all channels alike
};

struct NoiseParams {
  void* data;   // [count] of one image; in place
  DType dtype;  // uint8 or float32
  int64_t count;
  int64_t plane;  // values of a channel
  NoiseKind kind;
  uint64_t key;
  double first, second;
  bool clip;  // of kGaussian: to black and white; else uint8 wraps
};

inline KernelStub<NoiseParams> noise_stub{"noise"};

// Kernels take blocks of 128 values, for kSaltAndPepper those of a channel.
constexpr int64_t kNoiseBlock = 128;

VISOPS_FN int64_t noise_blocks(const NoiseParams& p) {
  const int64_t count = p.kind == NoiseKind::kSaltAndPepper ? p.plane : p.count;
  return (count + kNoiseBlock - 1) / kNoiseBlock;
}

}  // namespace visops
