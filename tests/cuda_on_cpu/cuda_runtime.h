// A stand-in for NVIDIA's <cuda_runtime.h>: kernels compiled as plain C++ run on the host.
//
// For tests only; first on the include path when VISOPS_CUDA_EMULATION is defined. Blocks run one
// after another; a block's threads run on fibers (fibers.h) that change places only where they
// synchronise. So indexing, barriers and arithmetic are those of the GPU code; speed is not. Races
// on memory are found by a build of its own (tests/cuda_on_cpu/checks).
//
// Stricter than the hardware, on purpose: an error is thrown where threads leave while others wait
// in __syncthreads, where threads or lanes meet at different places in the sources, where a shuffle
// reads a lane that takes no part, and where a launch configuration is beyond the limits of compute
// capability 8.0.
#pragma once

#include <cstring>
#include <type_traits>

#include "fibers.h"
#include "tally_count.h"

// Kernels take constants that are small enough for tests to see several launches and rounds, or
// with VISOPS_GPU_CONSTANTS those of a GPU.
#if !defined(VISOPS_GPU_CONSTANTS)
#define VISOPS_SMALL_CONSTANTS
#endif

using cudaStream_t = struct CUstream_st*;

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Threads of a block are fibers of one host thread, and so share what is local to that thread. For
// the checks of memory, an array that nobody may touch stands between any two.
#if defined(VISOPS_CUDA_CHECK)
#define VISOPS_JOINED(a, b) a##b
#define VISOPS_REDZONE(number) VISOPS_JOINED(visops_redzone_, number)
#define __shared__                                                                     \
  __attribute__((used, aligned(64))) static thread_local unsigned char VISOPS_REDZONE( \
      __COUNTER__)[64];                                                                \
  static thread_local
#else
#define __shared__ static thread_local
#endif

#define threadIdx (::cuda_emulation::here().thread)
#define blockIdx (::cuda_emulation::here().block)
#define blockDim (::cuda_emulation::here().block_size)
#define gridDim (::cuda_emulation::here().grid_size)
#define warpSize 32

#define __syncthreads() ::cuda_emulation::scheduler().sync_block({__FILE__, __LINE__})

namespace cuda_emulation {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr long kMostBlocks = 7;  // so few that tests see blocks stride
#else
constexpr long kMostBlocks = 1 << 24;
#endif

// Where parameters end that begin at `at`, each aligned as it must be.
template <class... Parameter>
constexpr size_t parameter_bytes() {
  size_t at = 0;
  ((at = (at + alignof(Parameter) - 1) / alignof(Parameter) * alignof(Parameter) +
         sizeof(Parameter)),
   ...);
  return at;
}

template <class... Formal>
void launch(void (*kernel)(Formal...), dim3 grid, dim3 block, size_t shared_bytes,
            const std::common_type_t<Formal>&... args) {
  launch_count().add(reinterpret_cast<const void*>(kernel));
  scheduler().launch(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes,
                     parameter_bytes<Formal...>(), [&]() VISOPS_UNCHECKED {
                       const bool before = check::set_active(true);
                       kernel(args...);
                       check::set_active(before);
                     });
}

// Hands `value` over to lane `source` of the warp and returns what that lane's `source` handed
// over.
template <class T>
T exchange(unsigned mask, T value, unsigned source, Site site) {
  static_assert(sizeof(T) <= sizeof(unsigned long long), "shuffles move at most 8 bytes");
  check::Quiet quiet;
  Scheduler& s = scheduler();
  std::memcpy(s.slot(s.lane()), &value, sizeof(T));
  s.sync_warp(mask, site, false);
  s.require_lane(mask, source);
  std::memcpy(&value, s.slot(source), sizeof(T));
  s.sync_warp(mask, site, false);  // no lane overwrites its slot before all have read
  return value;
}

// Calls `use(lane, value)` for the value of each lane of `mask`.
template <class Use>
void gather(unsigned mask, unsigned value, Site site, const Use& use) {
  check::Quiet quiet;
  Scheduler& s = scheduler();
  *s.slot(s.lane()) = value;
  s.sync_warp(mask, site, false);
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (s.takes_part(mask, lane)) use(lane, static_cast<unsigned>(*s.slot(lane)));
  }
  s.sync_warp(mask, site, false);
}

}  // namespace cuda_emulation

// The last two arguments are the place of the call.
#define VISOPS_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncwarp(unsigned mask = 0xffffffffu, VISOPS_SITE) {
  cuda_emulation::scheduler().sync_warp(mask, {file, line}, true);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, VISOPS_SITE) {
  const unsigned lane = cuda_emulation::scheduler().lane();
  const unsigned first = lane & ~(static_cast<unsigned>(width) - 1);
  return cuda_emulation::exchange(mask, value, first + (static_cast<unsigned>(source) % width),
                                  {file, line});
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, VISOPS_SITE) {
  const unsigned lane = cuda_emulation::scheduler().lane();
  const bool stays = lane % width + delta >= static_cast<unsigned>(width);
  return cuda_emulation::exchange(mask, value, stays ? lane : lane + delta, {file, line});
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, VISOPS_SITE) {
  const unsigned lane = cuda_emulation::scheduler().lane();
  return cuda_emulation::exchange(mask, value, lane % width < delta ? lane : lane - delta,
                                  {file, line});
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned lane_mask, int width = 32, VISOPS_SITE) {
  const unsigned lane = cuda_emulation::scheduler().lane();
  const unsigned source = lane ^ lane_mask;
  return cuda_emulation::exchange(mask, value, source / width > lane / width ? lane : source,
                                  {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, VISOPS_SITE) {
  unsigned ballot = 0;
  cuda_emulation::gather(mask, predicate != 0, {file, line}, [&](unsigned lane, unsigned given) {
    if (given != 0) ballot |= 1u << lane;
  });
  return ballot;
}

inline unsigned __reduce_max_sync(unsigned mask, unsigned value, VISOPS_SITE) {
  unsigned most = 0;
  cuda_emulation::gather(mask, value, {file, line}, [&](unsigned, unsigned given) {
    if (given > most) most = given;
  });
  return most;
}

inline int __any_sync(unsigned mask, int predicate, VISOPS_SITE) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, VISOPS_SITE) {
  return __ballot_sync(mask, !predicate, file, line) == 0;
}

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clzll(long long v) {
  return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v));
}
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }

template <class T>
T __ldg(const T* p) {
  return *p;
}

// Fibers change places only where they synchronise: a plain update is atomic. The second argument
// converts to the first's type, as CUDA's overloads have it.
#define VISOPS_ATOMIC(name, changed)                                                    \
  template <class T>                                                                    \
  VISOPS_UNCHECKED T name(T* p, std::common_type_t<T> v) {                              \
    cuda_emulation::check::touch_atomically(p, sizeof(T), __builtin_return_address(0)); \
    const T old = *p;                                                                   \
    *p = changed;                                                                       \
    return old;                                                                         \
  }
VISOPS_ATOMIC(atomicAdd, static_cast<T>(old + v))
VISOPS_ATOMIC(atomicMax, v > old ? v : old)
VISOPS_ATOMIC(atomicMin, v < old ? v : old)
VISOPS_ATOMIC(atomicOr, old | v)
VISOPS_ATOMIC(atomicXor, old ^ v)
VISOPS_ATOMIC(atomicExch, v)
#undef VISOPS_ATOMIC

template <class T>
VISOPS_UNCHECKED T atomicCAS(T* p, std::common_type_t<T> expected, std::common_type_t<T> desired) {
  cuda_emulation::check::touch_atomically(p, sizeof(T), __builtin_return_address(0));
  const T old = *p;
  if (old == expected) *p = desired;
  return old;
}
