// Shares items out to parts, a part for each task.
#pragma once

#include "core/dispatch/workspace.h"

namespace visops {
namespace {

// The first item of a part, where `items` are shared evenly by `parts`.
VISOPS_ALWAYS_INLINE int64_t first_of_part(int64_t items, int64_t parts, int64_t part) {
  const int64_t least = items / parts, more = items % parts;
  return least * part + (part < more ? part : more);
}

}  // namespace
}  // namespace visops
