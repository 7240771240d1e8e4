// What the parts of the checks tell each other: accesses and races, schedules, variables, reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "memory.h"

namespace cuda_emulation::check {

// Every access of a CUDA thread, held against what others have done.

constexpr unsigned kRead = 1, kWrite = 2, kAtomic = 4, kAnyAlignment = 8;

// The host thread whose accesses are looked at now, or null.
extern void* watched;
extern uintptr_t own_stack, own_stack_bytes;

void look(uintptr_t at, size_t bytes, unsigned kind, const void* where);

// An index beyond an array, found by the compiler's own check.
[[noreturn]] void fail_index(const char* file, unsigned line, const char* array, long long index);

inline void access(const void* p, size_t bytes, unsigned kind, const void* where) {
  if (watched != __builtin_thread_pointer()) return;
  const auto at = reinterpret_cast<uintptr_t>(p);
  if (at - own_stack < own_stack_bytes) return;
  look(at, bytes, kind, where);
}

// Other orders that a GPU may run threads and blocks in: see NOTE [ Schedules of emulated
// kernels ].

void begin_schedule();  // of a launch, as schedule_seed() has it
// Lets other threads of the block run first, now and then. Called before an access.
void maybe_pause();
// What a thread is about to do to global memory.
void before_volatile_write(uintptr_t at, size_t bytes);
void before_atomic(uintptr_t at, size_t bytes);

void begin_schedule_of_block();
void end_schedule_of_block();

// The __shared__ variables of a kernel, looked through for writes that GCC does not tell of.

// NOTE [ Unseen writes ]
// In `variable = f()` GCC lets f write its result to the variable at once, and -fsanitize=thread
// says nothing of it. So variables are compared with what they held when the thread went on. They
// are known from the first access that is seen, in this launch of the kernel or an earlier one.

// The variables that earlier launches of the kernel have touched are known again.
void begin_variables(const void* kernel);
void end_variables(const void* kernel);
// Makes all that are known look unwritten.
void fill_variables();
void know_variable(const Extent& extent);
size_t variable_bytes();

// call(extent, begin, bytes, before) for pieces with bytes that have changed since the last call.
using Change = void (*)(const Extent& extent, uintptr_t begin, size_t bytes,
                        const unsigned char* before);
void for_each_change(Change call);

// What the checks found, as text.

struct Finding {
  std::string what;    // "a race"
  std::string text;    // with %1 and %2 where places in the sources belong
  const void* where;   // return address of the access
  const void* before;  // that of the earlier one, or null
};

// "csrc/cuda/roi/box_tile.h:128" from a compiler's path.
std::string short_path(const std::string& path);
// Places in the sources of return addresses, asked for together: reading the library's line numbers
// takes a while.
std::map<const void*, std::string> positions_of(const std::vector<const void*>& addresses);
std::string position_text(unsigned x, unsigned y, unsigned z);
const char* verb(unsigned kind);

// Throws the text or, where VISOPS_CUDA_CHECK_LOG names a file, appends it there.
void throw_or_log(const std::string& text);

// One text; asks addr2line for the places.
std::string describe(const std::string& kernel, const std::vector<Finding>& findings);

}  // namespace cuda_emulation::check
