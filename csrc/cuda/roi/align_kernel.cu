// NOTE [ RoIAlign on CUDA ]
// A block has a box, or a part of its bins and channels. First its threads list the pixels of the
// box's bins along either axis, one bin each, in shared memory. Then a thread sums the means of one
// bin for four channels, so that a pixel's weight and address serve all four, and four loads are in
// flight at once. The lanes of a warp are channels if these are adjacent, else bins.
//
// If a bin has more pixels than its list has room for (boxes much larger than the map), the block
// skips the box, and a second kernel, whose threads find pixels as they go, computes it. That
// kernel is not launched if the number of samples rules such boxes out. It also computes what takes
// offsets of 64 bits (offsets_fit()).
//
// Registers: threads wait for memory, so four blocks at once matter more than what 64 registers
// cost. What is the same for a block stays in shared memory and is read anew for each item.
//
// Rounding: NOTE [ RoIAlign samples ], without contraction (-fmad=false), so the bits are the
// CPU's. Boxes that are not valid have zeros.
#include "cuda/roi/mean.h"

namespace visops {
namespace {

template <class T, bool listed>
__global__ void __launch_bounds__(kThreads, blocks_at_once<T>())
    roi_align_mean(const __grid_constant__ RoiAlignParams p, const ItemPlan plan,
                   const ListRoom room, const int64_t first) {
  pool_block<T, SameChannels, listed>(p, plan, room, first + blockIdx.x);
}

void roi_align_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    launch_pool<T, SameChannels>(roi_align_mean<T, true>, roi_align_mean<T, false>, p, workspace);
  });
}

const bool registered = roi_align_stub.set(kCudaSlot, roi_align_cuda);

}  // namespace
}  // namespace visops
