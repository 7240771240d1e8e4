// A stand-in for NVIDIA's <cuda_runtime.h>: kernels compiled as plain C++ run on the host.
//
// For tests only; first on the include path when VISOPS_CUDA_EMULATION is defined. Blocks run one
// after another; a block's threads run on fibers (fibers.h) that change places only where they
// synchronise. So indexing, barriers and arithmetic are those of the GPU code; speed and races on
// memory are not.
//
// Stricter than the hardware, on purpose: an error is thrown where threads leave while others wait
// in __syncthreads, where they meet in different __syncthreads, where a shuffle reads a lane that
// takes no part, and where a launch configuration is beyond the limits of compute capability 8.0.
#pragma once

#include <cstring>
#include <type_traits>

#include "fibers.h"

using cudaStream_t = struct CUstream_st*;

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
// Threads of a block are fibers of one host thread, and so share what is local to that thread.
#define __shared__ static thread_local

#define threadIdx (::cuda_emulation::here().thread)
#define blockIdx (::cuda_emulation::here().block)
#define blockDim (::cuda_emulation::here().block_size)
#define gridDim (::cuda_emulation::here().grid_size)
#define warpSize 32

#define __syncthreads() ::cuda_emulation::scheduler().sync_block(__LINE__)

namespace cuda_emulation {

// Hands `value` over to lane `source` of the warp and returns what that lane's `source` handed
// over.
template <class T>
T exchange(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(unsigned long long), "shuffles move at most 8 bytes");
  Scheduler& s = scheduler();
  std::memcpy(s.slot(s.lane()), &value, sizeof(T));
  s.sync_warp(mask);
  s.require_lane(mask, source);
  std::memcpy(&value, s.slot(source), sizeof(T));
  s.sync_warp(mask);  // no lane overwrites its slot before all have read
  return value;
}

}  // namespace cuda_emulation

inline void __syncwarp(unsigned mask = 0xffffffffu) { cuda_emulation::scheduler().sync_warp(mask); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned lane = cuda_emulation::scheduler().lane();
  const unsigned first = lane & ~(static_cast<unsigned>(width) - 1);
  return cuda_emulation::exchange(mask, value, first + (static_cast<unsigned>(source) % width));
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = cuda_emulation::scheduler().lane();
  const bool stays = lane % width + delta >= static_cast<unsigned>(width);
  return cuda_emulation::exchange(mask, value, stays ? lane : lane + delta);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = cuda_emulation::scheduler().lane();
  return cuda_emulation::exchange(mask, value, lane % width < delta ? lane : lane - delta);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned lane_mask, int width = 32) {
  const unsigned lane = cuda_emulation::scheduler().lane();
  const unsigned source = lane ^ lane_mask;
  return cuda_emulation::exchange(mask, value, source / width > lane / width ? lane : source);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  cuda_emulation::Scheduler& s = cuda_emulation::scheduler();
  *s.slot(s.lane()) = predicate != 0;
  s.sync_warp(mask);
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (s.takes_part(mask, lane) && *s.slot(lane) != 0) ballot |= 1u << lane;
  }
  s.sync_warp(mask);
  return ballot;
}

inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }

template <class T>
T __ldg(const T* p) {
  return *p;
}

// Fibers change places only where they synchronise: a plain update is atomic. The second argument
// converts to the first's type, as CUDA's overloads have it.
template <class T>
T atomicAdd(T* p, std::common_type_t<T> v) {
  const T old = *p;
  *p = old + v;
  return old;
}

template <class T>
T atomicMax(T* p, std::common_type_t<T> v) {
  const T old = *p;
  if (v > old) *p = v;
  return old;
}

template <class T>
T atomicMin(T* p, std::common_type_t<T> v) {
  const T old = *p;
  if (v < old) *p = v;
  return old;
}

template <class T>
T atomicOr(T* p, std::common_type_t<T> v) {
  const T old = *p;
  *p = old | v;
  return old;
}

template <class T>
T atomicXor(T* p, std::common_type_t<T> v) {
  const T old = *p;
  *p = old ^ v;
  return old;
}

template <class T>
T atomicExch(T* p, std::common_type_t<T> v) {
  const T old = *p;
  *p = v;
  return old;
}

template <class T>
T atomicCAS(T* p, std::common_type_t<T> expected, std::common_type_t<T> desired) {
  const T old = *p;
  if (old == expected) *p = desired;
  return old;
}
