// Shares work out to the threads of a Workspace.
#pragma once

#include "core/workspace.h"

namespace visops {
namespace {

// body(begin, end) over [0, parts) in parallel. A single part is called directly: handing it to
// torch's threads takes some microseconds.
template <class Body>
VISOPS_ALWAYS_INLINE void for_each_part(Workspace& workspace, int64_t parts, const Body& body) {
  if (parts == 1) return body(0, 1);
  parallel_for(workspace, parts, 1, body);
}

// The first item of a part, where `items` are shared evenly by `parts`.
VISOPS_ALWAYS_INLINE int64_t first_of_part(int64_t items, int64_t parts, int64_t part) {
  const int64_t least = items / parts, more = items % parts;
  return least * part + (part < more ? part : more);
}

}  // namespace
}  // namespace visops
