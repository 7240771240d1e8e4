// The CPU kernels are in one library. `_native`, which exists once per Python version, takes them
// from there instead of holding copies.
#pragma once

#include "core/dispatch/kernel_stub.h"

namespace visops {

// What libvisops hands over; csrc/library.cpp fills it in.
struct CpuLibrary {
  const char* build;  // VISOPS_BUILD; first, so that it can be compared before anything is called
  AnyKernel (*kernel)(const char* stub, Slot slot);  // null where there is none
};

constexpr char kCpuLibraryEntry[] = "visops_cpu_library";
using CpuLibraryEntry = const CpuLibrary* (*)();

}  // namespace visops
