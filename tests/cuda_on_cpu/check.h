// What the emulation tells the checks of memory (checks/), and nothing in other builds.
//
// With VISOPS_CUDA_CHECK the kernels are compiled with -fsanitize=thread and linked with our own
// __tsan_* functions: every access to memory of every CUDA thread is looked at.
#pragma once

#include <cstddef>
#include <string>

// For what the emulation does often: its accesses are not looked at.
#if defined(__SANITIZE_THREAD__)
#define VISOPS_UNCHECKED __attribute__((no_sanitize("thread", "undefined"), noinline))
#else
#define VISOPS_UNCHECKED
#endif

namespace cuda_emulation::check {

struct Position {
  unsigned x, y, z;
};

struct Launch {
  const void* kernel;
  Position grid, block;
  size_t shared_bytes;     // dynamic
  size_t parameter_bytes;  // of all arguments, each aligned
};

#if defined(VISOPS_CUDA_CHECK)

constexpr bool kIsOn = true;

void begin_launch(const Launch& launch);  // throws for what no GPU can start
void end_launch();                        // throws what was found
void drop_launch() noexcept;              // after an error
void begin_block(size_t linear, void* shared);
void end_block();
void enter_thread(unsigned thread, const void* stack, size_t stack_bytes);
bool set_active(bool active);  // whether accesses are looked at; returns what was before
void order_block();            // all threads of the block have met
void order_warp(unsigned warp, unsigned lanes);  // these lanes have met
void touch_atomically(void* address, size_t bytes, const void* where);
std::string kernel_name();                    // of the current launch
bool is_skipped(const char* file, int line);  // whether this barrier is to be passed

#else

constexpr bool kIsOn = false;

inline void begin_launch(const Launch&) {}
inline void end_launch() {}
inline void drop_launch() noexcept {}
inline void begin_block(size_t, void*) {}
inline void end_block() {}
inline void enter_thread(unsigned, const void*, size_t) {}
inline bool set_active(bool) { return false; }
inline void order_block() {}
inline void order_warp(unsigned, unsigned) {}
inline void touch_atomically(void*, size_t, const void*) {}
inline std::string kernel_name() { return ""; }
inline bool is_skipped(const char*, int) { return false; }

#endif

// Accesses within belong to the emulation, not to the kernel.
class Quiet {
 public:
  Quiet() : before_(set_active(false)) {}
  ~Quiet() { set_active(before_); }
  Quiet(const Quiet&) = delete;

 private:
  bool before_;
};

}  // namespace cuda_emulation::check
