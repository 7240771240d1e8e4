#include "core/dispatch/cuda_library.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "core/dispatch/shared_library.h"
#include "visops_build.h"  // written by the build

namespace visops {
namespace {

struct Loaded {
  const CudaLibrary* library = nullptr;
  std::string error;
};

std::string& refusal() {
  static std::string reason;
  return reason;
}

// Major version of the CUDA runtime that torch has loaded; 0 if there is none to be seen.
int loaded_cuda_major() {
  const std::string name = loaded_library("libcudart.so.");
  return name.empty() ? 0 : std::atoi(name.c_str() + name.rfind(".so.") + 4);
}

Loaded load() {
  Loaded result;
  if (!refusal().empty()) return {nullptr, refusal()};
  std::string path = folder_of_this_library() + VISOPS_CUDA_LIBRARY;
  if (!file_exists(path)) {
    return {nullptr, "this copy of visops was built without CUDA (" + path +
                         " is not there); rebuild with nvcc, see docs/building.md"};
  }
  const int major = loaded_cuda_major();
  if (VISOPS_CUDA_MAJOR != 0 && major != 0 && major != VISOPS_CUDA_MAJOR) {
    const std::string built = std::to_string(VISOPS_CUDA_MAJOR);
    return {nullptr, "the CUDA kernels are built for CUDA " + built + " and torch uses CUDA " +
                         std::to_string(major) +
                         "; run: pip install --force-reinstall torch --index-url " +
                         VISOPS_TORCH_INDEX + ", or rebuild visops"};
  }
  std::string error;
  void* const handle = open_library(path, &error);
  if (handle == nullptr) {
    return {nullptr, "the CUDA kernels could not be loaded: " + error + kReinstall};
  }
  const auto entry = reinterpret_cast<CudaLibraryEntry>(symbol_of(handle, kCudaLibraryEntry));
  const CudaLibrary* const library = entry == nullptr ? nullptr : entry();
  if (library == nullptr || std::strcmp(library->build, VISOPS_BUILD) != 0) {
    return {nullptr, path + " is of another build than the library beside it" + kReinstall};
  }
  StubTable::take_cuda_kernels(*library);
  result.library = library;
  return result;
}

const Loaded& loaded() {
  static const Loaded once = load();  // C++ lets one thread load, and others wait
  return once;
}

}  // namespace

const CudaLibrary& cuda_library() {
  const Loaded& once = loaded();
  if (once.library == nullptr) throw std::runtime_error("visops: " + once.error);
  return *once.library;
}

const std::string& cuda_library_error() { return loaded().error; }

void reject_cuda_library(const std::string& reason) { refusal() = reason; }

KernelStub<SendNumbersParams> send_numbers_stub("send_numbers");

}  // namespace visops
