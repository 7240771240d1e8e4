#include "torch/tensor.h"

#include <cctype>
#include <exception>
#include <utility>

#include "core/check.h"
#include "core/dispatch/cuda_library.h"
#include "core/overlap.h"
#include "torch/allocate.h"
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

}  // namespace visops
