// How a task walks the rows of a batch.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {
namespace {

// Calls body(sample, first, last) for the part of [begin, end) in each sample of `rows` rows.
template <class Body>
VISOPS_ALWAYS_INLINE void for_each_sample(int64_t begin, int64_t end, int64_t rows,
                                          const Body& body) {
  while (begin < end) {
    const int64_t sample = begin / rows;
    const int64_t first = begin - sample * rows;
    const int64_t last = first + (rows - first < end - begin ? rows - first : end - begin);
    body(sample, first, last);
    begin += last - first;
  }
}

}  // namespace
}  // namespace visops
