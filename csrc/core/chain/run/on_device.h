// The passes of a chain on a batch of images that kernels of a device can read: all samples at
// once, where passes.h takes one image after another.
//
// NOTE [ Passes on a device ]
// The host draws and composes as for the CPU, and computes what kernels know about a sample before
// they look at a row, by the same functions. A pass's numbers go to the device together (NOTE
// [ Numbers as parameters ]); nothing is uploaded otherwise, and nothing waits. So a pass of
// geometry and colours is a launch that stores numbers, and one for each kind of sample that there
// is. A contrast adds two: the picture for its mean, and its mean to the colours.
#pragma once

#include <vector>

#include "core/chain/run/passes.h"
#include "core/dispatch/workspace.h"

namespace visops {

// Whose kernels run, and where they have memory.
struct Device {
  Slot slot;
  Workspace& workspace;
};

// Whether there is a way for these plans; else run them on image after image, or by operators.
bool runs_on_device(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans);

// Runs passes on the images [C, H, W] of a batch, one for each sample, which stay as they are;
// `plans` holds one for each pass. The results are `to`, [batch, C, H, W]; contiguous if the last
// pass is by values.
void run_on_device(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans,
                   const std::vector<AugmentImage>& images, DType dtype, const StridedData& to,
                   const Device& device);

}  // namespace visops
