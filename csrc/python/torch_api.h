// What C++ asks of torch without its headers: DLPack's C functions say where a tensor's elements
// are, in 50 nanoseconds; everything else is an attribute or a call by Python's C API.
#pragma once

#include <pybind11/pybind11.h>
#include <cstdint>
#include <vector>

#include "core/chain/run/on_device.h"
#include "core/images/pixel.h"

namespace visops {

namespace py = pybind11;

// Whether this is exactly a torch.Tensor, or of a subclass of it.
bool is_plain_tensor(py::handle value);
bool is_tensor(py::handle value);
// A tensor of a subclass as a plain one.
py::object as_plain_tensor(py::handle value);
// The dimensions of a plain tensor.
int rank_of_tensor(py::handle tensor);
// Looks at a plain tensor, which must be on the CPU, or with `cuda` may be on a GPU. False: it is
// no TensorView.
bool view_tensor(py::handle tensor, TensorView* view, bool cuda = false);
// The device with this number, or kOnCpu, of a tensor or array there, as torch has it.
py::object device_of(py::handle tensor, int number);
// The same for an array of NumPy's.
bool view_array(py::handle array, TensorView* view);
// torch.empty(), on the CPU unless a device is given, and what it holds. `dtype` is one of torch's.
py::object empty_tensor(const std::vector<int64_t>& shape, py::handle dtype, TensorView* view);
py::object empty_tensor(const std::vector<int64_t>& shape, py::handle dtype, py::handle device,
                        TensorView* view);
// torch's name for a dtype.
py::handle torch_dtype(DType dtype);

// Whether a mode, a transform or the profiler has to see the operators that a call runs, or
// forward-mode gradients may be wanted.
bool observers_active();

// Chains on a CUDA device, without torch's dispatcher.

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
