// NOTE [ Schedules of emulated kernels ]
// Plain accesses race or they don't, whatever the schedule (NOTE [ Races of emulated kernels ]): no
// plain read can tell when other threads or blocks have run. Atomics and volatile accesses can. So,
// with a seed:
//
// - one access in kAccessesPerPause, on average, waits until the other threads of the block have
//   had a turn;
// - every other block, on average, finds what other blocks have written through volatile pointers
//   as it was before the launch. It sees its own writes; at its end, those of others come back.
//
// Atomics always meet the newest value, as on a GPU.
#include "parts.h"

#include <cstring>
#include <map>

#include "fibers.h"

namespace cuda_emulation::check {
namespace {

constexpr uint64_t kAccessesPerPause = 32;
constexpr size_t kMostBytes = 16;

struct Written {
  size_t bytes;
  unsigned char before[kMostBytes], newest[kMostBytes];
  bool is_atomic, is_hidden;  // hidden: memory holds `before`
};

uint64_t random_state = 0;  // 0: no schedule of our own
uint64_t until_pause = 0;
std::map<uintptr_t, Written> written;  // volatile, in this launch

uint64_t draw() {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 0x2545f4914f6cdd1dull >> 33;
}

void draw_pause() { until_pause = 1 + draw() % (2 * kAccessesPerPause); }

void show(uintptr_t at, Written* one) {
  if (one->is_hidden) std::memcpy(reinterpret_cast<void*>(at), one->newest, one->bytes);
  one->is_hidden = false;
}

}  // namespace

void begin_schedule() {
  random_state = schedule_seed();
  written.clear();
  if (random_state != 0) draw_pause();
}

void maybe_pause() {
  if (random_state == 0 || --until_pause != 0) return;
  draw_pause();
  scheduler().pause();
}

void before_volatile_write(uintptr_t at, size_t bytes) {
  if (random_state == 0 || bytes > kMostBytes) return;
  Written& one = written[at];
  if (one.bytes == 0) {
    one.bytes = bytes;
    std::memcpy(one.before, reinterpret_cast<const void*>(at), bytes);
  }
  one.is_hidden = false;  // from here on memory holds what this block writes
}

void before_atomic(uintptr_t at, size_t) {
  if (random_state == 0) return;
  const auto found = written.find(at);
  if (found == written.end()) return;
  show(at, &found->second);
  found->second.is_atomic = true;
}

void begin_schedule_of_block() {
  if (random_state == 0 || written.empty() || draw() % 2 == 0) return;
  for (auto& [at, one] : written) {
    if (one.is_atomic) continue;
    std::memcpy(one.newest, reinterpret_cast<const void*>(at), one.bytes);
    std::memcpy(reinterpret_cast<void*>(at), one.before, one.bytes);
    one.is_hidden = true;
  }
}

void end_schedule_of_block() {
  for (auto& [at, one] : written) show(at, &one);
}

}  // namespace cuda_emulation::check
