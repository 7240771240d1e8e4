#include "core/roi/pool.h"

namespace visops {

KernelStub<RoiPoolParams> roi_pool_stub{"roi_pool"};
KernelStub<RoiPoolParams> roi_pool_at_stub{"roi_pool_at"};
KernelStub<RoiPoolParams> roi_pool_backward_stub{"roi_pool_backward"};

}  // namespace visops
