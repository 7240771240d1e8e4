// What the torch fronts share: checks of stable tensors, fresh tensors, and running a kernel.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
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

// What the fronts of operators on a batch of images share, where each result has its image's shape.

// Fills in dtype and sizes from images [B, C, H, W]; throws, naming op, for another shape.
template <class Params>
void read_images(const char* op, const Tensor& images, Params& p) {
  require(images.dim() == 4, op, "images have shape ", shape_text(images),
          ", must be [B, C, H, W]");
  p.dtype = dtype_of(op, "images", images);
  p.batch = images.size(0);
  p.channels = images.size(1);
  p.height = images.size(2);
  p.width = images.size(3);
}

// Runs the kernel on parameters that are checked, into a fresh tensor.
template <class Params>
Tensor run_on_images(const KernelStub<Params>& stub, const char* op, const Tensor& images,
                     Params& p) {
  const Tensor read = torch::stable::contiguous(images);
  const Tensor output =
      empty_tensor(op, "result", images, {p.batch, p.channels, p.height, p.width}, p.dtype);
  if (output.numel() == 0) return output;
  p.images = read.const_data_ptr();
  p.output = output.mutable_data_ptr();
  run(stub, op, p, images);
  return output;
}

// The arithmetic of a tensor's elements, for operators that take every type.

// Throws, naming op and argument, for types without sums (quantized, 8-bit floats).
inline Arithmetic arithmetic_of(const char* op, const char* argument, const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Bool: return Arithmetic::kBool;
    case ScalarType::Byte:
    case ScalarType::Char: return Arithmetic::kInt8;
    case ScalarType::Short:
    case ScalarType::UInt16: return Arithmetic::kInt16;
    case ScalarType::Int:
    case ScalarType::UInt32: return Arithmetic::kInt32;
    case ScalarType::Long:
    case ScalarType::UInt64: return Arithmetic::kInt64;
    case ScalarType::Half: return Arithmetic::kFloat16;
    case ScalarType::BFloat16: return Arithmetic::kBFloat16;
    case ScalarType::Float: return Arithmetic::kFloat32;
    case ScalarType::Double: return Arithmetic::kFloat64;
    case ScalarType::ComplexHalf: return Arithmetic::kComplex32;
    case ScalarType::ComplexFloat: return Arithmetic::kComplex64;
    case ScalarType::ComplexDouble: return Arithmetic::kComplex128;
    default:
      fail(op, argument, " has dtype ", dtype_text(tensor.scalar_type()),
           ", which is not supported");
  }
}

// New tensors of any type and number of dimensions, zeros, and the element that extends an input.

// Zeros in host memory, contiguous. Large ones are pages that the system hands out cleared, so they
// cost nothing until they are written or read. Throws, naming op and `what`, where memory runs out.
Tensor zeroed_on_host(const char* op, const char* what, const std::vector<int64_t>& sizes,
                      DType dtype);

// Copies the bytes of `fill`; zeros if there is none. Throws unless it is one CPU element of the
// input's dtype.
void take_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
               unsigned char (&element)[kLargestElement]);

// An uninitialised tensor on the device of `like`. Throws, naming op and `what`, where the size
// overflows or memory runs out.
Tensor empty_contiguous(const char* op, const char* what, const Tensor& like,
                        const std::vector<int64_t>& sizes, ScalarType type);

// The same with these strides, which must leave no gaps.
Tensor empty_strided(const char* op, const char* what, const Tensor& like,
                     const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                     ScalarType type);

// Calls of torch's own operators, through the stable dispatcher.

// Takes all of the operator's arguments in order. The stack it returns begins with the results.
template <class... Args>
std::array<StableIValue, sizeof...(Args)> call_operator(const char* name, const char* overload,
                                                        const Args&... args) {
  std::array<StableIValue, sizeof...(Args)> stack{torch::stable::detail::from(args)...};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION));
  return stack;
}

template <class... Args>
torch::stable::Tensor call_for_tensor(const char* name, const char* overload, const Args&... args) {
  return torch::stable::detail::to<torch::stable::Tensor>(
      call_operator(name, overload, args...)[0]);
}

}  // namespace visops
