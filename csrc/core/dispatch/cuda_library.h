// The CUDA kernels are a library of their own, beside this one, which is loaded when the first CUDA
// tensor comes. So this library needs nothing of CUDA and loads beside any torch.
#pragma once

#include <cstdint>
#include <string>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"

namespace visops {

// What the library of CUDA kernels hands over; csrc/cuda/library.cpp fills it in.
struct CudaLibrary {
  const char* build;  // VISOPS_BUILD; first, so that it can be compared before anything is called
  // Calls take(context, stub's name, kernel) for every kernel.
  void (*for_each_kernel)(void (*take)(void*, const char*, AnyKernel), void* context);
  // The current stream of a device, a cudaStream_t. Throws std::runtime_error if torch can't say.
  void* (*current_stream)(int device_index);
};

// Its only symbol.
constexpr char kCudaLibraryEntry[] = "visops_cuda_library";
using CudaLibraryEntry = const CudaLibrary* (*)();

// The loaded library, its kernels in their stubs. Throws std::runtime_error with the reason where
// it can't be had. Tries once per process.
const CudaLibrary& cuda_library();

// Why cuda_library() throws; empty where it does not.
const std::string& cuda_library_error();

// Keeps the library from being loaded, for a reason that only the caller sees. Does nothing after
// the first attempt to load it.
void reject_cuda_library(const std::string& reason);

// Kernels are in one library, and it knows where those of CUDA are. `_native`, which exists once
// per Python version, takes them from there instead of holding copies.

// What libvisops hands over; csrc/library.cpp fills it in.
struct CpuLibrary {
  const char* build;  // VISOPS_BUILD; first, so that it can be compared before anything is called
  // Null where there is none. The first one of CUDA loads CUDA's library.
  AnyKernel (*kernel)(const char* stub, Slot slot);
  // body(context, stream) with a CUDA device as the current one, and its current stream.
  void (*on_device)(int index, void (*body)(void* context, void* stream), void* context);
};

constexpr char kCpuLibraryEntry[] = "visops_cpu_library";
using CpuLibraryEntry = const CpuLibrary* (*)();

// Numbers of the host that kernels of a device are to read.

// The kernel has taken a copy when it returns, and waits for nothing:
// csrc/cuda/send_numbers_kernel.cu.
struct SendNumbersParams {
  const uint64_t* from;  // in host memory
  uint64_t* to;          // in the device's
  int64_t count;
};

extern KernelStub<SendNumbersParams> send_numbers_stub;  // of devices only

}  // namespace visops
