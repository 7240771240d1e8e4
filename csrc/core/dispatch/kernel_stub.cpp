#include "core/dispatch/kernel_stub.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "core/dispatch/cuda_library.h"

#if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
#include <immintrin.h>
#include <intrin.h>
#endif

namespace visops {
namespace {

StubTable* first_stub = nullptr;

struct CpuFeatures {
  bool avx2;
  bool avx512;
};

// AVX-512 here means F, BW, DQ and VL: what every AVX-512 server chip has, and what the objects
// are compiled for.
CpuFeatures detect() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return {avx2, avx512};
#elif defined(_MSC_VER) && defined(_M_X64)
  int regs[4];
  __cpuid(regs, 1);
  const bool osxsave = regs[2] & (1 << 27);
  const bool fma = regs[2] & (1 << 12);
  const bool f16c = regs[2] & (1 << 29);
  if (!osxsave) return {false, false};
  const unsigned long long xcr0 = _xgetbv(0);
  __cpuidex(regs, 7, 0);
  const bool avx2 = (xcr0 & 0x6) == 0x6 && fma && f16c && (regs[1] & (1 << 5));
  const unsigned wanted = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);
  return {avx2,
          avx2 && (xcr0 & 0xe6) == 0xe6 && (static_cast<unsigned>(regs[1]) & wanted) == wanted};
#else
  return {false, false};
#endif
}

// VISOPS_ISA and VISOPS_EMULATION leave slots out of a build.
bool is_built(Slot slot) {
  for (const StubTable* stub : StubTable::all()) {
    if (stub->has(slot)) return true;
  }
  return false;
}

std::string built_names() {
  std::string names;
  for (Slot slot : {Slot::kDefault, Slot::kAvx2, Slot::kAvx512}) {
    if (is_built(slot)) names += (names.empty() ? "" : ", ") + std::string(slot_name(slot));
  }
  return names;
}

Slot slot_named(const std::string& name) {
  std::string names;
  for (Slot slot : available_cpu_slots()) {
    if (name == slot_name(slot)) return slot;
    names += (names.empty() ? "" : ", ") + std::string(slot_name(slot));
  }
  throw std::runtime_error("visops: VISOPS_CPU=" + name +
                           " is not available; this build on this processor has: " + names);
}

Slot choose() {
  const char* forced = std::getenv("VISOPS_CPU");
  if (forced != nullptr && *forced != '\0') return slot_named(forced);
  const std::vector<Slot> available = available_cpu_slots();
  const auto last = std::find_if(available.rbegin(), available.rend(),
                                 [](Slot slot) { return slot != Slot::kCudaEmulated; });
  if (last != available.rend()) return *last;
  throw std::runtime_error("visops: this build has kernels for " + built_names() +
                           " alone, which this processor can't run; build it without VISOPS_ISA");
}

Slot& chosen_slot() {
  static Slot slot = choose();
  return slot;
}

}  // namespace

const char* slot_name(Slot slot) {
  static const char* const names[kSlots] = {"default", "avx2", "avx512", "cuda_emulated", "cuda"};
  return names[static_cast<int>(slot)];
}

std::vector<Slot> available_cpu_slots() {
  const CpuFeatures cpu = detect();
  std::vector<Slot> slots;
  if (is_built(Slot::kDefault)) slots.push_back(Slot::kDefault);
  if (cpu.avx2 && is_built(Slot::kAvx2)) slots.push_back(Slot::kAvx2);
  if (cpu.avx512 && is_built(Slot::kAvx512)) slots.push_back(Slot::kAvx512);
  if (is_built(Slot::kCudaEmulated)) slots.push_back(Slot::kCudaEmulated);
  return slots;
}

Slot cpu_slot() { return chosen_slot(); }

void force_cpu_slot(const std::string& name) { chosen_slot() = slot_named(name); }

const char* StubTable::name() const { return name_; }

bool StubTable::has(Slot slot) const { return kernel(slot) != nullptr; }

AnyKernel StubTable::kernel(Slot slot) const { return slots_[static_cast<int>(slot)]; }

std::vector<const StubTable*> StubTable::all() {
  std::vector<const StubTable*> stubs;
  for (const StubTable* stub = first_stub; stub != nullptr; stub = stub->next_) {
    stubs.push_back(stub);
  }
  return stubs;
}

bool StubTable::store(Slot slot, AnyKernel kernel) {
  bool known = false;
  for (const StubTable* stub = first_stub; stub != nullptr; stub = stub->next_) {
    known = known || stub == this;
  }
  if (!known) {
    next_ = first_stub;
    first_stub = this;
  }
  slots_[static_cast<int>(slot)] = kernel;
  return true;
}

AnyKernel StubTable::best_cpu() const {
  const Slot wanted = cpu_slot();
  if (wanted == Slot::kCudaEmulated) {
    if (has(wanted)) return kernel(wanted);
    throw std::runtime_error("visops." + std::string(name_) + ": built without CUDA emulation");
  }
  for (int slot = static_cast<int>(wanted); slot >= 0; --slot) {
    if (slots_[slot] != nullptr) return slots_[slot];
  }
  throw std::runtime_error("visops." + std::string(name_) + ": built without a CPU kernel");
}

void StubTable::take_cuda_kernels(const CudaLibrary& library) {
  const auto take = [](void*, const char* name, AnyKernel kernel) {
    for (StubTable* stub = first_stub; stub != nullptr; stub = stub->next_) {
      if (std::strcmp(stub->name_, name) == 0) stub->slots_[static_cast<int>(Slot::kCuda)] = kernel;
    }
  };
  library.for_each_kernel(take, nullptr);
}

AnyKernel StubTable::cuda_or_throw(int device_index) const {
  const std::string& error = cuda_library_error();  // loads the kernels
  if (has(Slot::kCuda)) return kernel(Slot::kCuda);
  throw std::runtime_error(
      "visops." + std::string(name_) + ": no kernel for cuda:" + std::to_string(device_index) +
      ", where the input is: " + (error.empty() ? "the CUDA library lacks it" : error));
}

}  // namespace visops
