// Work that divides into equal items.
#pragma once

#include "core/dispatch/grain.h"
#include "core/dispatch/workspace.h"

namespace visops {

// range(params, begin, end) for parts of `count` items, each of about `cost` elements.
template <class Params>
static inline void for_items(Workspace& workspace, const Params& params, int64_t count,
                             int64_t cost, void (*range)(const Params&, int64_t, int64_t)) {
  parallel_for(workspace, count, grain_of(cost),
               [&](int64_t begin, int64_t end) { range(params, begin, end); });
}

}  // namespace visops
