// Work that divides into equal items.
#pragma once

#include <cstdint>

#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "core/platform.h"

namespace visops {

// range(params, begin, end) for parts of `count` items, each of about `cost` elements.
template <class Params>
static inline void for_items(Workspace& workspace, const Params& params, int64_t count,
                             int64_t cost, void (*range)(const Params&, int64_t, int64_t)) {
  parallel_for(workspace, count, grain_of(cost),
               [&](int64_t begin, int64_t end) { range(params, begin, end); });
}

namespace {

// How a task walks the rows of a batch.

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
