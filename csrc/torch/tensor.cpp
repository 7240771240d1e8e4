#include "torch/tensor.h"

#include <torch/csrc/stable/macros.h>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "core/box.h"
#include "core/check.h"
#include "core/dispatch/cuda_library.h"
#include "core/dispatch/workspace.h"
#include "torch/register.h"

namespace visops {

#if defined(_LIBCPP_VERSION)
const char* error_of(Boxed call, StableIValue* stack, uint64_t inputs, uint64_t outputs) {
  thread_local std::string text;
  try {
    call(stack, inputs, outputs);
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.c_str();
}
#endif

std::optional<DType> dtype_of(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return DType::kBool;
    case ScalarType::Byte: return DType::kUInt8;
    case ScalarType::Char: return DType::kInt8;
    case ScalarType::Short: return DType::kInt16;
    case ScalarType::UInt16: return DType::kUInt16;
    case ScalarType::Int: return DType::kInt32;
    case ScalarType::Long: return DType::kInt64;
    case ScalarType::Half: return DType::kFloat16;
    case ScalarType::BFloat16: return DType::kBFloat16;
    case ScalarType::Float: return DType::kFloat32;
    case ScalarType::Double: return DType::kFloat64;
    default: return std::nullopt;
  }
}

DType dtype_of(const char* op, const char* argument, const Tensor& tensor) {
  const std::optional<DType> dtype = dtype_of(tensor.scalar_type());
  require(dtype.has_value(), op, argument, " has dtype ", dtype_text(tensor.scalar_type()),
          ", which is not supported");
  return *dtype;
}

std::string dtype_text(ScalarType type) {
  if (const std::optional<DType> dtype = dtype_of(type)) return dtype_name(*dtype);
  switch (type) {
    case ScalarType::ComplexHalf: return "complex32";
    case ScalarType::ComplexFloat: return "complex64";
    case ScalarType::ComplexDouble: return "complex128";
    default: break;
  }
  std::string name = torch::headeronly::toString(type);  // Python's but for capitals
  for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
  return name;
}

ScalarType scalar_type_of(DType dtype) {
  static constexpr ScalarType types[] = {
      ScalarType::Bool,     ScalarType::Byte,  ScalarType::Char,  ScalarType::Short,
      ScalarType::UInt16,   ScalarType::Int,   ScalarType::Long,  ScalarType::Half,
      ScalarType::BFloat16, ScalarType::Float, ScalarType::Double};
  return types[static_cast<int>(dtype)];
}

std::ostream& operator<<(std::ostream& out, const DeviceText& device) {
  const Tensor& tensor = device.tensor;
  if (tensor.is_cpu()) return out << "cpu";
  return out << (tensor.is_cuda() ? "cuda:" : "device ") << tensor.get_device_index();
}

std::ostream& operator<<(std::ostream& out, const TensorShapeText& shape) {
  return out << shape_text(shape.tensor.sizes());
}

TensorShapeText::operator std::string() const { return shape_text(tensor.sizes()); }

void check_shape(const char* op, const char* name, const Tensor& tensor,
                 const std::vector<int64_t>& expected) {
  bool same = tensor.dim() == static_cast<int64_t>(expected.size());
  for (int64_t d = 0; same && d < tensor.dim(); ++d) same = tensor.size(d) == expected[d];
  require(same, op, name, " has shape ", shape_text(tensor), ", must be ", shape_text(expected));
}

bool on_same_device(const Tensor& a, const Tensor& b) {
  return a.is_cuda() == b.is_cuda() && a.get_device_index() == b.get_device_index();
}

void check_same_device(const char* op, const char* reference_name, const Tensor& reference,
                       const char* name, const Tensor& tensor) {
  // Torch's schemas let None pass for a tensor.
  require(tensor.defined(), op, name, " is None, must be a tensor");
  require(on_same_device(reference, tensor), op, name, " is on ", device_text(tensor), ", ",
          reference_name, " is on ", device_text(reference), "; all tensors must be on one device");
}

void check_writable(const char* op, const Tensor& out) {
  const auto sizes = out.sizes(), strides = out.strides();
  require(has_no_internal_overlap(out.dim(), sizes.data(), strides.data()), op, "out has shape ",
          shape_text(out), " and strides ", shape_text(strides), "; its elements must not overlap");
}

namespace {

// [first, last] bytes that a tensor's elements lie in; the tensor is not empty.
std::pair<const char*, const char*> extent(const Tensor& t) {
  const char* first = static_cast<const char*>(t.const_data_ptr());
  const char* last = first;
  const int64_t size = static_cast<int64_t>(t.element_size());
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d) * size;
  return {first, last + size - 1};
}

}  // namespace

void check_no_overlap(const char* op, const char* name, const Tensor& input, const Tensor& out,
                      const char* what) {
  if (input.numel() == 0 || out.numel() == 0) return;
  const auto [input_first, input_last] = extent(input);
  const auto [out_first, out_last] = extent(out);
  require(out_last < input_first || input_last < out_first, op, "out shares memory with ", name,
          "; ", what, " can't be done in place");
}

bool prefers_channels_last(const Tensor& image) {
  return image.size(1) > 1 && image.stride(1) == 1 && !image.is_contiguous();
}

Tensor empty_tensor(const char* op, const char* what, const Tensor& like,
                    const std::vector<int64_t>& sizes, DType dtype, bool channels_last) {
  if (!channels_last) return empty_contiguous(op, what, like, sizes, scalar_type_of(dtype));
  std::vector<int64_t> strides(4);
  int64_t step = 1;
  for (const int d : {1, 3, 2, 0}) {
    strides[d] = step;
    step = saturating_product(step, sizes[d] > 1 ? sizes[d] : 1);
  }
  return empty_strided(op, what, like, sizes, strides, scalar_type_of(dtype));
}

void* current_cuda_stream(const Tensor& tensor) {
  return cuda_library().current_stream(static_cast<int>(tensor.get_device_index()));
}

void* TensorWorkspace::allocate(int64_t bytes) {
  held_.push_back(empty_tensor(op_, "scratch", on_, {bytes}, DType::kUInt8));
  return held_.back().mutable_data_ptr();
}

void* TensorWorkspace::stream() const { return on_.is_cuda() ? current_cuda_stream(on_) : nullptr; }

namespace {
constexpr int64_t kAlignment = 64;  // torch's

}  // namespace

Tensor zeroed_on_host(const char* op, const char* what, const std::vector<int64_t>& sizes,
                      DType dtype) {
  int64_t bytes = element_size(dtype);
  for (const int64_t size : sizes) bytes = saturating_product(bytes, size);
  void* memory = nullptr;
  if (bytes < std::numeric_limits<int64_t>::max() - kAlignment) {
    memory = std::calloc(static_cast<size_t>(bytes + kAlignment), 1);
  }
  if (memory == nullptr) {
    fail(op, what, " of shape ", shape_text(sizes),
         " can't be allocated on cpu: not enough memory");
  }
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const auto aligned = (address + kAlignment - 1) & ~uintptr_t{kAlignment - 1};
  prefer_large_pages(reinterpret_cast<void*>(aligned), bytes);
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step = saturating_product(step, sizes[i] > 1 ? sizes[i] : 1);
  }
  const torch::stable::Device cpu(torch::headeronly::DeviceType::CPU);
  try {
    return torch::stable::from_blob(reinterpret_cast<void*>(aligned), sizes, strides, cpu,
                                    scalar_type_of(dtype), [memory](void*) { std::free(memory); });
  } catch (...) {
    std::free(memory);
    throw;
  }
}
}  // namespace visops

namespace visops {
void take_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
               unsigned char (&element)[kLargestElement]) {
  std::memset(element, 0, sizeof(element));
  if (!fill.has_value()) return;
  require(fill->numel() == 1, op, "fill has shape ", shape_text(*fill), ", must be one element");
  require(fill->is_cpu(), op, "fill is on ", device_text(*fill), ", must be on cpu");
  const ScalarType type = fill->scalar_type(), wanted = input.scalar_type();
  require(type == wanted, op, "fill has dtype ", dtype_text(type), ", input has ",
          dtype_text(wanted));
  std::memcpy(element, fill->const_data_ptr(), fill->element_size());
}

namespace {

// Why an allocation on this device failed. On a GPU it may also be an earlier kernel that did;
// torch knows from 2.13 on.
std::string allocation_error(const Tensor& like) {
  if (!like.is_cuda()) return "not enough memory";
  const char* message = nullptr;
#if defined(TORCH_DYNAMIC_VERSION_CALL_2_13_0)
  message = TORCH_DYNAMIC_VERSION_CALL_2_13_0(torch_exception_get_what_without_backtrace,
                                              torch::stable::detail::torch_shim_bc_const_char_ptr);
#endif
  return message != nullptr ? message : "not enough memory, or an earlier CUDA call failed";
}

}  // namespace

Tensor empty_strided(const char* op, const char* what, const Tensor& like,
                     const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                     ScalarType type) {
  int64_t count = 1;
  for (const int64_t size : sizes) count = saturating_product(count, size > 1 ? size : 1);
  AtenTensorHandle handle = nullptr;
  const bool is_there =
      count <= std::numeric_limits<int64_t>::max() / kLargestElement &&
      aoti_torch_empty_strided(
          static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
          torch::stable::detail::to<int32_t>(torch::stable::detail::from(type)),
          like.is_cuda() ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu(),
          like.is_cuda() ? static_cast<int32_t>(like.get_device_index()) : 0,
          &handle) == AOTI_TORCH_SUCCESS;
  if (!is_there) {
    fail(op, what, " of shape ", shape_text(sizes), " can't be allocated on ", device_text(like),
         ": ", allocation_error(like));
  }
  const Tensor tensor(handle);
  if (!like.is_cuda()) {
    prefer_large_pages(tensor.mutable_data_ptr(),
                       tensor.numel() * static_cast<int64_t>(tensor.element_size()));
  }
  return tensor;
}

Tensor empty_contiguous(const char* op, const char* what, const Tensor& like,
                        const std::vector<int64_t>& sizes, ScalarType type) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step = saturating_product(step, sizes[i] > 1 ? sizes[i] : 1);
  }
  return empty_strided(op, what, like, sizes, strides, type);
}
}  // namespace visops
