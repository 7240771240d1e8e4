// Kernels are in one library, and it knows where those of CUDA are. `_native`, which exists once
// per Python version, takes them from there instead of holding copies.
#pragma once

#include "core/dispatch/kernel_stub.h"

namespace visops {

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

}  // namespace visops
