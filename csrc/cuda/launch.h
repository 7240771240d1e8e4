// How CUDA files start kernels, and the few things that differ where they are emulated.
//
// VISOPS_CUDA_EMULATION compiles the same files as plain C++ against tests/cuda_emulation, for the
// suite to run the kernels' own code on CPU tensors.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/kernel_stub.h"

namespace visops {

#if defined(VISOPS_CUDA_EMULATION)
constexpr Slot kCudaSlot = Slot::kCudaEmulated;
constexpr int64_t kMostBlocks = 7;  // so few that tests see blocks stride
#else
constexpr Slot kCudaSlot = Slot::kCuda;
// Far more than any GPU holds at once, and far below the limit of a grid.
constexpr int64_t kMostBlocks = int64_t{1} << 24;
#endif

// Blocks for `count` pieces of work: a block each, up to kMostBlocks. A kernel strides by gridDim.x
// over what is left.
static inline dim3 grid_for(int64_t count) {
  return dim3(static_cast<unsigned>(count < kMostBlocks ? count : kMostBlocks));
}

// Starts kernel(args...) on `stream` (a cudaStream_t); neither waits for it. Nothing is started
// for an empty grid. Throws std::runtime_error where the launch is refused.
template <class... Formal>
void launch(void (*kernel)(Formal...), dim3 grid, dim3 block, size_t shared_bytes, void* stream,
            const std::common_type_t<Formal>&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
#if defined(VISOPS_CUDA_EMULATION)
  static_cast<void>(stream);
  cuda_emulation::scheduler().launch(grid, block, shared_bytes, [&] { kernel(args...); });
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
