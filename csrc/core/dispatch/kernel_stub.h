// The table through which every operator finds its kernel: one slot per backend.
//
// A kernel file registers itself:   const bool registered = affine_stub.set(Slot::kAvx2, kernel);
// A front asks for what fits:       affine_stub.cpu()(params, workspace);
// A kernel takes all of the work and schedules it: the Workspace (core/dispatch/workspace.h) has
// scratch, a parallel loop and the stream. It has one signature on every backend.
//
// The CPU slot is the best one that the processor has and the kernel offers; VISOPS_CPU forces one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/platform.h"

namespace visops {

enum class Slot : int { kDefault, kAvx2, kAvx512, kCudaEmulated, kCuda };
constexpr int kSlots = 5;

const char* slot_name(Slot slot);

// The CPU slot in force: VISOPS_CPU when set, else the best that this build and processor have.
// Throws std::runtime_error, naming what is there, when VISOPS_CPU can't be met or nothing is left.
Slot cpu_slot();

// What VISOPS_CPU may name here.
std::vector<Slot> available_cpu_slots();

// Puts another CPU slot in force, as VISOPS_CPU does when the process starts; for tests
// (tests/cuda_on_cpu/force_cpu.cpp). No kernel may be running.
void force_cpu_slot(const std::string& name);

using AnyKernel = void (*)();
struct CudaLibrary;

// The part of the stub that does not depend on the parameters. Its members are defined in
// kernel_stub.cpp so that no instruction-set object emits code for them.
class StubTable {
 public:
  constexpr explicit StubTable(const char* name) : name_(name) {}
  const char* name() const;
  bool has(Slot slot) const;
  AnyKernel kernel(Slot slot) const;  // null where there is none

  static std::vector<const StubTable*> all();  // every stub with at least one kernel
  static void take_cuda_kernels(const CudaLibrary& library);

 protected:
  bool store(Slot slot, AnyKernel kernel);
  AnyKernel best_cpu() const;  // throws when VISOPS_CPU asks for what this stub lacks
  AnyKernel cuda_or_throw(int device_index) const;

 private:
  const char* name_;
  AnyKernel slots_[kSlots] = {};
  StubTable* next_ = nullptr;
};

class Workspace;

template <class Params>
class KernelStub : public StubTable {
 public:
  using Kernel = void (*)(const Params&, Workspace&);

  constexpr explicit KernelStub(const char* name) : StubTable(name) {}

  VISOPS_ALWAYS_INLINE bool set(Slot slot, Kernel kernel) {
    return store(slot, reinterpret_cast<AnyKernel>(kernel));
  }
  Kernel cpu() const { return reinterpret_cast<Kernel>(best_cpu()); }
  Kernel cuda(int device_index) const {
    return reinterpret_cast<Kernel>(cuda_or_throw(device_index));
  }
};

// The slot of the object being compiled; the build defines VISOPS_ISA_SLOT per object.
#if defined(VISOPS_ISA_SLOT)
constexpr Slot kIsaSlot = static_cast<Slot>(VISOPS_ISA_SLOT);
#endif

}  // namespace visops
