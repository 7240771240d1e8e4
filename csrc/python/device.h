// Chains on a CUDA device, without torch's dispatcher.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "core/chain/run/on_device.h"

namespace visops {

namespace py = pybind11;

// Whether images of this device, a number or kOnCpu, are for run_on_device(): those of CUDA, and
// those of the CPU under emulation. False for a device without kernels, of which operators tell.
bool is_device(int device);

// run_on_device(), with scratch from torch.empty() and the current stream. `like` is a tensor of
// the device. Holds the interpreter's lock, as all it does is to start kernels.
void run_on_device_of(py::handle like, int device, const std::vector<Stage>& stages,
                      const std::vector<const ChainPlan*>& plans,
                      const std::vector<AugmentImage>& images, DType dtype, const StridedData& to);

}  // namespace visops
