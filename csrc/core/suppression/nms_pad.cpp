#include "core/suppression/nms_pad.h"

namespace visops {

KernelStub<NmsPadParams> nms_pad_stub{"nms_pad"};

}  // namespace visops
