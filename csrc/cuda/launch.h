// How CUDA files start kernels, and the little that differs under emulation.
//
// With VISOPS_CUDA_EMULATION the same files compile as plain C++ against tests/cuda_on_cpu, and
// tests run the kernels' own code on CPU tensors.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/dispatch/kernel_stub.h"

namespace visops {

#if defined(VISOPS_CUDA_EMULATION)
constexpr Slot kCudaSlot = Slot::kCudaEmulated;
constexpr int64_t kMostBlocks = cuda_emulation::kMostBlocks;
#else
constexpr Slot kCudaSlot = Slot::kCuda;
// Far more than any GPU holds at once, and far below the limit of a grid.
constexpr int64_t kMostBlocks = int64_t{1} << 24;
#endif

// A block for each of `count` pieces of work, up to kMostBlocks. Kernels stride by gridDim.x over
// the rest.
static inline dim3 grid_for(int64_t count) {
  return dim3(static_cast<unsigned>(count < kMostBlocks ? count : kMostBlocks));
}

// launch_part(first, blocks), a block for each of `count` pieces of work from `first` on, for
// kernels that have no loop over them: what does not change in it would be kept in registers.
template <class Launch>
void each_grid(int64_t count, const Launch& launch_part) {
  for (int64_t first = 0; first < count; first += kMostBlocks) {
    launch_part(first, grid_for(count - first));
  }
}

// Starts kernel(args...) on `stream` (a cudaStream_t) and returns at once. An empty grid starts
// nothing. Throws std::runtime_error if CUDA refuses the launch.
template <class... Formal>
void launch(void (*kernel)(Formal...), dim3 grid, dim3 block, size_t shared_bytes, void* stream,
            const std::common_type_t<Formal>&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
#if defined(VISOPS_CUDA_EMULATION)
  static_cast<void>(stream);
  cuda_emulation::launch(kernel, grid, block, shared_bytes, args...);
#else
  kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream)>>>(args...);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("visops: CUDA kernel launch failed: ") +
                             cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
  }
#endif
}

// The block's dynamic shared memory, of the size given to launch().
template <class T>
__device__ inline T* dynamic_shared() {
#if defined(VISOPS_CUDA_EMULATION)
  return static_cast<T*>(cuda_emulation::scheduler().dynamic_shared());
#else
  extern __shared__ __align__(16) unsigned char visops_dynamic_shared[];
  return reinterpret_cast<T*>(visops_dynamic_shared);
#endif
}

}  // namespace visops
