#include "core/roi/ps_align.h"

namespace visops {

KernelStub<RoiAlignParams> ps_roi_align_stub{"ps_roi_align"};
KernelStub<RoiAlignParams> ps_roi_align_backward_stub{"ps_roi_align_backward"};

}  // namespace visops
