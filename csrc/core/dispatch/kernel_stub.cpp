#include "core/dispatch/kernel_stub.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "core/dispatch/cuda_library.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace visops {
namespace {

StubTable* first_stub = nullptr;

struct CpuFeatures {
  bool avx2;
  bool avx512;
};

// AVX-512 here means F, BW, DQ and VL: what every AVX-512 server chip has, and what the objects
// are compiled for. The processor is asked itself: on Windows, Clang's __builtin_cpu_supports()
// says that it has nothing.
CpuFeatures detect() {
#if defined(__x86_64__)
  const auto has = [](unsigned word, unsigned bits) { return (word & bits) == bits; };
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return {false, false};
  if (!has(c, bit_FMA | bit_F16C | bit_OSXSAVE)) return {false, false};
  unsigned kept, upper;  // the registers that the system keeps from one thread to the next
  __asm__("xgetbv" : "=a"(kept), "=d"(upper) : "c"(0));
  constexpr unsigned kOf256 = 0x6, kOf512 = 0xe6;  // bits
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return {false, false};
  const bool avx2 = has(kept, kOf256) && has(b, bit_AVX2);
  return {avx2, avx2 && has(kept, kOf512) &&
                    has(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL)};
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
