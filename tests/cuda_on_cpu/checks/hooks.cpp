// What the compiler calls for -fsanitize=thread and -fsanitize=bounds, in place of their libraries.
// The names and signatures are those of LLVM's compiler-rt (lib/tsan/rtl/tsan_interface.h,
// lib/ubsan/ubsan_handlers.h).
#include <atomic>
#include <cstdint>
#include <cstring>

#include "parts.h"

using namespace cuda_emulation::check;

#define HERE __builtin_return_address(0)

#define ACCESSES(bytes)                                                            \
  extern "C" void __tsan_read##bytes(void* p) { access(p, bytes, kRead, HERE); }   \
  extern "C" void __tsan_write##bytes(void* p) { access(p, bytes, kWrite, HERE); } \
  extern "C" void __tsan_volatile_read##bytes(void* p) {                           \
    access(p, bytes, kRead | kAtomic, HERE);                                       \
  }                                                                                \
  extern "C" void __tsan_volatile_write##bytes(void* p) {                          \
    access(p, bytes, kWrite | kAtomic, HERE);                                      \
  }                                                                                \
  extern "C" void __tsan_unaligned_read##bytes(void* p) {                          \
    access(p, bytes, kRead | kAnyAlignment, HERE);                                 \
  }                                                                                \
  extern "C" void __tsan_unaligned_write##bytes(void* p) {                         \
    access(p, bytes, kWrite | kAnyAlignment, HERE);                                \
  }                                                                                \
  extern "C" void __tsan_unaligned_volatile_read##bytes(void* p) {                 \
    access(p, bytes, kRead | kAtomic | kAnyAlignment, HERE);                       \
  }                                                                                \
  extern "C" void __tsan_unaligned_volatile_write##bytes(void* p) {                \
    access(p, bytes, kWrite | kAtomic | kAnyAlignment, HERE);                      \
  }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

extern "C" void __tsan_read_range(void* p, unsigned long bytes) {
  access(p, bytes, kRead | kAnyAlignment, HERE);
}
extern "C" void __tsan_write_range(void* p, unsigned long bytes) {
  access(p, bytes, kWrite | kAnyAlignment, HERE);
}
extern "C" void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  access(from, bytes, kRead | kAnyAlignment, HERE);
  access(to, bytes, kWrite | kAnyAlignment, HERE);
  return std::memcpy(to, from, bytes);
}
extern "C" void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  access(from, bytes, kRead | kAnyAlignment, HERE);
  access(to, bytes, kWrite | kAnyAlignment, HERE);
  return std::memmove(to, from, bytes);
}
extern "C" void* __tsan_memset(void* to, int value, size_t bytes) {
  access(to, bytes, kWrite | kAnyAlignment, HERE);
  return std::memset(to, value, bytes);
}

extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_read(void**) {}
extern "C" void __tsan_vptr_update(void**, void*) {}

// C++'s own atomics are the emulation's or the standard library's: no kernel has any.
#define FETCH(bits, Word, op)                                                       \
  extern "C" Word __tsan_atomic##bits##_fetch_##op(volatile Word* p, Word v, int) { \
    return __atomic_fetch_##op(p, v, __ATOMIC_SEQ_CST);                             \
  }
#define ATOMICS(bits, Word)                                                                        \
  extern "C" Word __tsan_atomic##bits##_load(const volatile Word* p, int) {                        \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                \
  extern "C" void __tsan_atomic##bits##_store(volatile Word* p, Word v, int) {                     \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                \
  extern "C" Word __tsan_atomic##bits##_exchange(volatile Word* p, Word v, int) {                  \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                \
  FETCH(bits, Word, add)                                                                           \
  FETCH(bits, Word, sub)                                                                           \
  FETCH(bits, Word, and)                                                                           \
  FETCH(bits, Word, or)                                                                            \
  FETCH(bits, Word, xor)                                                                           \
  extern "C" int __tsan_atomic##bits##_compare_exchange_strong(volatile Word* p, Word* expected,   \
                                                               Word v, int, int) {                 \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                                \
  extern "C" int __tsan_atomic##bits##_compare_exchange_weak(volatile Word* p, Word* expected,     \
                                                             Word v, int, int) {                   \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
extern "C" void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
extern "C" void __tsan_atomic_signal_fence(int) {}

namespace {

struct Type {
  uint16_t kind, info;
  char name[1];
};
struct IndexError {
  const char* file;
  uint32_t line, column;
  const Type* array;
  const Type* index;
};

}  // namespace

extern "C" void __ubsan_handle_out_of_bounds(void* data, void* index) {
  if (watched != __builtin_thread_pointer()) return;
  const auto* error = static_cast<const IndexError*>(data);
  fail_index(error->file, error->line, error->array->name, reinterpret_cast<intptr_t>(index));
}
