// What the torch fronts share: checks of stable tensors, fresh tensors, and running a kernel.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "torch/threads.h"

namespace visops {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Throws, naming op and argument, for a dtype that no visops op takes.
DType dtype_of(const char* op, const char* argument, const Tensor& tensor);
std::optional<DType> dtype_of(ScalarType type);  // none: no visops op takes it
ScalarType scalar_type_of(DType dtype);
std::string dtype_text(ScalarType type);  // as Python names it

// Shape and device of a tensor as errors print them; like ShapeText, they become text only there.
struct TensorShapeText {
  const Tensor& tensor;
  operator std::string() const;
};
struct DeviceText {
  const Tensor& tensor;
};
std::ostream& operator<<(std::ostream& out, const TensorShapeText& shape);
std::ostream& operator<<(std::ostream& out, const DeviceText& device);
inline TensorShapeText shape_text(const Tensor& tensor) { return {tensor}; }
inline DeviceText device_text(const Tensor& tensor) { return {tensor}; }

// Throws unless `tensor` has these sizes.
void check_shape(const char* op, const char* name, const Tensor& tensor,
                 const std::vector<int64_t>& expected);

bool on_same_device(const Tensor& a, const Tensor& b);

// Throws unless `tensor` is on the device of `reference`.
void check_same_device(const char* op, const char* reference_name, const Tensor& reference,
                       const char* name, const Tensor& tensor);

// Throw unless `out` can be written: its elements don't overlap, and share no memory with the
// input. `what` names what can't be done in place.
void check_writable(const char* op, const Tensor& out);
void check_no_overlap(const char* op, const char* name, const Tensor& input, const Tensor& out,
                      const char* what);

// Whether a result follows its input into channels_last: channels are adjacent, and the input is
// not contiguous as well.
bool prefers_channels_last(const Tensor& image);

// An uninitialised tensor of 1 to 4 dimensions (4 for channels_last) on the device of `like`.
// Throws where memory runs out, naming the operator and `what`.
Tensor empty_tensor(const char* op, const char* what, const Tensor& like,
                    const std::vector<int64_t>& sizes, DType dtype, bool channels_last = false);

// The tensor with this dtype, contiguous; itself, if it is that already.
inline Tensor contiguous_as(const Tensor& tensor, DType dtype) {
  return torch::stable::contiguous(torch::stable::to(tensor, scalar_type_of(dtype)));
}

void* current_cuda_stream(const Tensor& tensor);

// Whether CUDA kernels do the work for tensors like `on`: on a GPU, and under emulation. A front
// that has two ways to prepare the work asks this, and nothing else, which one to take.
inline bool runs_cuda_kernels(const Tensor& on) {
  return on.is_cuda() || cpu_slot() == Slot::kCudaEmulated;
}

// Scratch is made of tensors, loops run on torch's threads, and the stream is the current one.
class TensorWorkspace final : public OnTorchThreads<Workspace> {
 public:
  TensorWorkspace(const char* op, const Tensor& on) : op_(op), on_(on) {}
  void* allocate(int64_t bytes) override;
  void* stream() const override;

 private:
  const char* op_;
  const Tensor& on_;
  std::vector<Tensor> held_;
};

// call(kernel) with the stub's CUDA kernel, on the device of `on`.
template <class Stub, class Call>
void run_on_cuda(const Stub& stub, const Tensor& on, const Call& call) {
  const int device_index = static_cast<int>(on.get_device_index());
  const auto kernel = stub.cuda(device_index);
  torch::stable::accelerator::DeviceGuard guard(device_index);
  call(kernel);
}

// Runs the kernel for the device of `on`, with scratch there; errors name `op`.
template <class Params>
void run(const KernelStub<Params>& stub, const char* op, const Params& params, const Tensor& on) {
  TensorWorkspace workspace(op, on);
  if (on.is_cuda()) {
    run_on_cuda(stub, on, [&](auto kernel) { kernel(params, workspace); });
  } else {
    stub.cpu()(params, workspace);
  }
}

}  // namespace visops
