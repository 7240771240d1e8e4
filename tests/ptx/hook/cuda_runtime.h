// Comes before visops' emulation of <cuda_runtime.h> on the include path, and lets its launches run
// the PTX that nvcc made of the kernel instead of the kernel as the C++ compiler made it.
//
// All else is the emulation's: what g++ compiles here are the fronts of the kernels, and the
// kernels themselves for their addresses (VISOPS_PTX_MODE=emulated runs them, =both compares).
#pragma once

// The emulation's own launch() and Scheduler::launch() get another name.
#define launch launch_emulated
#include_next <cuda_runtime.h>
#undef launch

#include <string>

#include "launch.h"

namespace cuda_emulation {

template <class... Formal>
void launch(void (*kernel)(Formal...), dim3 grid, dim3 block, size_t shared_bytes,
            const std::common_type_t<Formal>&... args) {
  constexpr size_t kCount = sizeof...(Formal);
  constexpr size_t kBytes = parameter_bytes<Formal...>();
  alignas(64) unsigned char bytes[kBytes + 1] = {};
  size_t sizes[kCount + 1] = {}, offsets[kCount + 1] = {}, at = 0, i = 0;
  (
      [&] {
        at = (at + alignof(Formal) - 1) / alignof(Formal) * alignof(Formal);
        std::memcpy(bytes + at, &args, sizeof(Formal));
        offsets[i] = at;
        sizes[i++] = sizeof(Formal);
        at += sizeof(Formal);
      }(),
      ...);
  const std::function<void()> emulated = [&] {
    launch_emulated(kernel, grid, block, shared_bytes, args...);
  };
  VisopsPtxLaunch what = {};
  what.kernel = reinterpret_cast<const void*>(kernel);
  what.grid[0] = grid.x, what.grid[1] = grid.y, what.grid[2] = grid.z;
  what.block[0] = block.x, what.block[1] = block.y, what.block[2] = block.z;
  what.shared_bytes = shared_bytes;
  what.parameters = bytes;
  what.parameter_bytes = kBytes;
  what.parameter_count = kCount;
  what.sizes = sizes;
  what.offsets = offsets;
  what.seed = schedule_seed();
  what.emulated = [](const void* f) { (*static_cast<const std::function<void()>*>(f))(); };
  what.emulated_of = &emulated;
  const std::string error = visops_ptx_launch(what);
  if (!error.empty()) throw std::runtime_error("PTX: " + error);
}

}  // namespace cuda_emulation
