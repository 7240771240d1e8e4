// A CPU task's segments, and what it says of their candidates.
#pragma once

#include <cstring>

#include "core/nms.h"

namespace visops {
namespace {

// body(first, count) for each segment that begins in [begin, end).
template <class Body>
void for_each_segment(const NmsParams& p, int64_t begin, int64_t end, const Body& body) {
  const auto starts = [&](int64_t i) { return i == 0 || p.segment[i] != p.segment[i - 1]; };
  while (begin < end && !starts(begin)) ++begin;
  while (begin < end) {
    int64_t next = begin + 1;
    while (next < p.count && !starts(next)) ++next;
    body(begin, next - begin);
    begin = next;
  }
}

struct SegmentOutput {
  uint8_t* kept;
  int64_t left;  // that may still be kept

  SegmentOutput(const NmsParams& p, int64_t begin, int64_t count)
      : kept(p.kept + begin), left(p.max_output < 0 ? count : p.max_output) {
    memset(kept, 0, static_cast<size_t>(count));
  }

  // False where there is no room.
  bool keep(int64_t i) {
    if (left == 0) return false;
    kept[i] = 1;
    --left;
    return true;
  }
};

}  // namespace
}  // namespace visops
