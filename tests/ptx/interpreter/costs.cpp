// What accesses ask of memory, counted with VISOPS_PTX_COUNT.
//
// Global memory moves in sectors of 32 bytes: a request of a warp costs as many as its lanes touch.
// The first cache looks up lines of 128 bytes.
// Shared memory has 32 banks of 4-byte words: a request takes as many passes as its lanes have
// different words in one bank. Requests of 8 and 16 bytes a lane go in two and four parts.
//
// "Touched" counts each byte that a launch reads, and each that it writes, once: what a kernel with
// perfect caches would move.
#include <algorithm>

#include "code.h"

namespace ptx {

void Touched::add(uint64_t at, size_t bytes, bool writes) {
  for (; bytes != 0; ++at, --bytes) {
    Page& page = pages_[at / kPage];
    (writes ? page.written : page.read).set(at % kPage);
  }
}

uint64_t Touched::bytes() const {
  uint64_t sum = 0;
  for (const auto& [number, page] : pages_) sum += page.read.count() + page.written.count();
  return sum;
}

void count_access(Warp& w, const Instruction& i, const uint64_t* at, bool is_shared, bool writes) {
  const int words = !is_shared || i.access_bytes < 4 ? 1 : i.access_bytes / 4;
  const int at_once = kLanes / words;
  Counts& counts = w.launch->kernel->counts[i.number];
  uint64_t seen[kLanes], lines[kLanes];
  size_t asked = 0;
  for (int first = 0; first < kLanes; first += at_once) {
    int in_bank[kLanes] = {}, most = 0, found = 0, found_lines = 0;
    for (int l = first; l < first + at_once; ++l) {
      if (!(w.active >> l & 1)) continue;
      asked += i.access_bytes;
      if (!is_shared) w.launch->touched->add(at[l], i.access_bytes, writes);
      for (int k = 0; k < words; ++k) {
        const uint64_t unit = is_shared ? at[l] / 4 + k : at[l] / 32;
        if (std::find(seen, seen + found, unit) != seen + found) continue;
        seen[found++] = unit;
        most = std::max(most, ++in_bank[unit % kLanes]);
        const uint64_t line = unit / 4;
        if (!is_shared && std::find(lines, lines + found_lines, line) == lines + found_lines)
          lines[found_lines++] = line;
      }
    }
    counts.units += static_cast<unsigned>(is_shared ? most : found);
    counts.least += is_shared && found != 0;
    counts.lines += static_cast<unsigned>(found_lines);
  }
  if (!is_shared) counts.least += (asked + 31) / 32;
  counts.bytes += asked;
}

}  // namespace ptx
