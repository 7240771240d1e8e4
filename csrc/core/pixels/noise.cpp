#include "core/pixels/noise.h"

namespace visops {

KernelStub<NoiseParams> noise_stub{"noise"};

}  // namespace visops
