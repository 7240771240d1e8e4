// The segments of a task: equal numbers lie together, and a task has those that begin in its part.
#pragma once

#include <cstdint>

namespace visops {
namespace {

// body(first, count) for each segment of the `total` numbers that begins in [begin, end).
template <class Body>
void for_each_segment(const int64_t* segment, int64_t total, int64_t begin, int64_t end,
                      const Body& body) {
  const auto starts = [&](int64_t i) { return i == 0 || segment[i] != segment[i - 1]; };
  while (begin < end && !starts(begin)) ++begin;
  while (begin < end) {
    int64_t next = begin + 1;
    while (next < total && !starts(next)) ++next;
    body(begin, next - begin);
    begin = next;
  }
}

}  // namespace
}  // namespace visops
