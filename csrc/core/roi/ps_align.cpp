#include "core/roi/ps_align.h"

namespace visops {

ScheduledStub<RoiAlignParams> ps_roi_align_stub{"ps_roi_align"};
ScheduledStub<RoiAlignParams> ps_roi_align_backward_stub{"ps_roi_align_backward"};

}  // namespace visops
