#include "numpy/kernels.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "core/cpu_library.h"
#include "core/shared_library.h"
#include "core/warp/affine.h"
#include "visops_build.h"  // written by the build

namespace visops {
namespace {

const CpuLibrary& cpu_library() {
  const std::string path = folder_of_this_library() + "lib/" + VISOPS_LIBRARY;
  std::string error;
  void* const handle = open_library(path, &error);
  if (handle == nullptr) throw std::runtime_error("visops: " + error);
  const auto entry = reinterpret_cast<CpuLibraryEntry>(symbol_of(handle, kCpuLibraryEntry));
  const CpuLibrary* const library = entry == nullptr ? nullptr : entry();
  if (library == nullptr || std::strcmp(library->build, VISOPS_BUILD) != 0) {
    throw std::runtime_error("visops: _numpy is of another build than " + path +
                             "; reinstall visops");
  }
  return *library;
}

}  // namespace

void take_kernels() {
  using Kernel = decltype(affine_stub)::CpuKernel;
  const CpuLibrary& library = cpu_library();
  for (Slot slot : {Slot::kDefault, Slot::kAvx2, Slot::kAvx512, Slot::kCudaEmulated}) {
    const AnyKernel kernel = library.kernel(affine_stub.name(), slot);
    if (kernel != nullptr) affine_stub.set(slot, reinterpret_cast<Kernel>(kernel));
  }
}

}  // namespace visops
