// Segments of a list, in parallel: equal numbers are adjacent, and segments are independent.
#pragma once

#include "core/dispatch/workspace.h"

namespace visops {
namespace {

// body(first, count) for each segment of the `total` numbers. A task has the segments that begin
// in its part, `grain` numbers or more: no segment is split, so threads can't change a result.
template <class Body>
void for_each_segment(Workspace& workspace, const int64_t* segment, int64_t total, int64_t grain,
                      const Body& body) {
  const auto starts = [&](int64_t i) { return i == 0 || segment[i] != segment[i - 1]; };
  const auto part = [&](int64_t begin, int64_t end) {
    while (begin < end && !starts(begin)) ++begin;
    while (begin < end) {
      int64_t next = begin + 1;
      while (next < total && !starts(next)) ++next;
      body(begin, next - begin);
      begin = next;
    }
  };
  parallel_for(workspace, total, grain, part);
}

}  // namespace
}  // namespace visops
