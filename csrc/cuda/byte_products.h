// __byte_perm(), __funnelshift_r(), __dp2a_lo() and __dp2a_hi(), which few files need.
#pragma once

#include "cuda/launch.h"

#if defined(VISOPS_CUDA_EMULATION)
#include <byte_products.h>  // of the emulation, as <cuda_runtime.h> is
#endif
