// macOS only: memory of this library. A wheel holds libc++, whose `operator new` and `delete` are
// visible and weak: the loader would hand them to every other library of the process. Those below
// are hidden, and so libc++'s are not linked. What either gives, malloc() gave.
//
// They have their names in object code: <new> declares them visible.
#if defined(__APPLE__)
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kAlignment = 16;  // of malloc()

void* allocate(size_t bytes, size_t alignment) {
  if (alignment <= kAlignment) return std::malloc(bytes > 0 ? bytes : 1);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#pragma GCC visibility push(hidden)
extern "C" {

void* _Znwm(size_t n) { return or_throw(allocate(n, 1)); }
void* _Znam(size_t n) { return or_throw(allocate(n, 1)); }
void* _ZnwmSt11align_val_t(size_t n, size_t a) { return or_throw(allocate(n, a)); }
void* _ZnamSt11align_val_t(size_t n, size_t a) { return or_throw(allocate(n, a)); }
void* _ZnwmRKSt9nothrow_t(size_t n, const void*) { return allocate(n, 1); }
void* _ZnamRKSt9nothrow_t(size_t n, const void*) { return allocate(n, 1); }
void* _ZnwmSt11align_val_tRKSt9nothrow_t(size_t n, size_t a, const void*) { return allocate(n, a); }
void* _ZnamSt11align_val_tRKSt9nothrow_t(size_t n, size_t a, const void*) { return allocate(n, a); }
void _ZdlPv(void* p) { std::free(p); }
void _ZdaPv(void* p) { std::free(p); }
void _ZdlPvm(void* p, size_t) { std::free(p); }
void _ZdaPvm(void* p, size_t) { std::free(p); }
void _ZdlPvSt11align_val_t(void* p, size_t) { std::free(p); }
void _ZdaPvSt11align_val_t(void* p, size_t) { std::free(p); }
void _ZdlPvmSt11align_val_t(void* p, size_t, size_t) { std::free(p); }
void _ZdaPvmSt11align_val_t(void* p, size_t, size_t) { std::free(p); }
void _ZdlPvRKSt9nothrow_t(void* p, const void*) { std::free(p); }
void _ZdaPvRKSt9nothrow_t(void* p, const void*) { std::free(p); }
void _ZdlPvSt11align_val_tRKSt9nothrow_t(void* p, size_t, const void*) { std::free(p); }
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void* p, size_t, const void*) { std::free(p); }

}  // extern "C"
#pragma GCC visibility pop

#endif
