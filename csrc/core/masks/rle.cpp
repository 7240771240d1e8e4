#include "core/masks/rle.h"

namespace visops {

KernelStub<MasksToRunsParams> masks_to_runs_stub{"masks_to_runs"};
KernelStub<RunsToBitsParams> runs_to_bits_stub{"runs_to_bits"};

}  // namespace visops
