// Every access of a CUDA thread, held against what others have done.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_emulation::check {

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

}  // namespace cuda_emulation::check
