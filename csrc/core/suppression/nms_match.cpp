#include "core/suppression/nms_match.h"

namespace visops {

KernelStub<NmsMatchParams> nms_match_stub{"nms_match"};

}  // namespace visops
