// A segment's results on the CPU.
#pragma once

#include <cstring>

#include "core/suppression/nms.h"
#include "cpu/suppression/segments.h"

namespace visops {
namespace {

struct SegmentOutput {
  uint8_t* kept;
  int64_t left;  // how many more may be kept

  SegmentOutput(const NmsParams& p, int64_t begin, int64_t count)
      : SegmentOutput(p.kept + begin, count) {
    if (p.max_output >= 0) left = p.max_output;
  }
  SegmentOutput(uint8_t* kept, int64_t count) : kept(kept), left(count) {
    memset(kept, 0, static_cast<size_t>(count));
  }

  // False if there is no room.
  bool keep(int64_t i) {
    if (left == 0) return false;
    kept[i] = 1;
    --left;
    return true;
  }
};

}  // namespace
}  // namespace visops
