// Counts steps of work under emulation, for tests that bound how many a kernel takes.
#pragma once

#include "cuda/launch.h"

#if defined(VISOPS_CUDA_EMULATION)
#include <tally_count.h>  // of the emulation, as <cuda_runtime.h> is
#endif

namespace visops {

// One step; nothing on a GPU.
__device__ inline void tally() {
#if defined(VISOPS_CUDA_EMULATION)
  ++cuda_emulation::tally_count();
#endif
}

}  // namespace visops
