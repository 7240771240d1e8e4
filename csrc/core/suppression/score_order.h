// Stable sorting by falling score, on the host.
//
// NOTE [ Order of scores ]
// As torch.sort(descending=True, stable=True): NaN before everything, -0 equal to +0, equal scores
// by index. A float's bits become an unsigned key that rises as the score falls. Key and index
// share a word, so all words differ and any sort is stable.
#pragma once

#include <cstdint>
#include <vector>

#include "core/numbers/element.h"

namespace visops {

VISOPS_FN uint32_t falling_key(float score) {
  if (score != score) return 0;
  const uint32_t bits = bit_cast<uint32_t>(score + 0.0f);  // -0 becomes +0
  return bits >> 31 != 0 ? bits : ~(bits | 0x80000000u);
}

VISOPS_FN uint64_t falling_key(double score) {
  if (score != score) return 0;
  const uint64_t bits = bit_cast<uint64_t>(score + 0.0);
  return bits >> 63 != 0 ? bits : ~(bits | (uint64_t{1} << 63));
}

// Sorts float32 scores' keys: falling_key() in the upper 32 bits, the index below. Only the keys
// need sorting where `indices_rise` already.
void sort_keys(std::vector<uint64_t>* keys, bool indices_rise);

// The same for float64 scores.
struct WideKey {
  uint64_t key;
  uint32_t index;
};
void sort_keys(std::vector<WideKey>* keys, bool indices_rise);

}  // namespace visops
