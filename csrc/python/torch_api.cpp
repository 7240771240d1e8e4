#include "python/torch_api.h"

#include <pybind11/gil_safe_call_once.h>
#include <pybind11/numpy.h>
#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/check.h"
#include "core/dispatch/plain_kernel.h"
#include "core/dispatch/workspace.h"
#include "python/bindings.h"

namespace visops {
namespace {

// The part of DLPack's C interface (dmlc/dlpack, version 1) by which torch says where a tensor's
// elements are. torch's own copy of it can't be included beside its stable interface.
constexpr uint32_t kDLPackMajorVersion = 1;
constexpr int32_t kDLPackCpu = 1, kDLPackCuda = 2;

enum DLPackTypeCode : uint8_t {
  kDLPackInt = 0,
  kDLPackUInt = 1,
  kDLPackFloat = 2,
  kDLPackBFloat = 4,
  kDLPackBool = 6
};

struct DLPackDevice {
  int32_t type, index;
};

struct DLPackType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct DLPackTensor {
  void* data;
  DLPackDevice device;
  int32_t ndim;
  DLPackType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements
  uint64_t byte_offset;
};

// What the capsule torch.Tensor.__dlpack_c_exchange_api__ points to.
struct DLPackExchange {
  uint32_t major_version, minor_version;
  const void* older;
  void *allocate, *managed_from_object, *object_from_managed;
  // Fills in a description that holds as long as the tensor; 0: it has. Else a Python error is set.
  int (*tensor_from_object)(void* object, DLPackTensor* out);
  void* current_stream;
};

py::handle attribute(py::handle object, const char* name) {
  return py::object(object.attr(name)).release();  // kept as long as the process
}

// torch's objects that calls need, looked up once.
struct Torch {
  py::handle tensor, strided, empty, cpu, as_subclass;
  py::handle layout, requires_grad, is_nested, is_neg, ndim, device;
  py::handle dtype_argument, device_argument, names;
  py::handle are_transforms_active, dispatch_modes, function_modes, is_profiled;
  py::handle forward_ad, forward_level, modes_or_transforms_active;
  py::handle dtypes[static_cast<size_t>(DType::kFloat64) + 1];
  const DLPackExchange* dlpack;

  Torch() {
    const py::module_ torch = py::module_::import("torch");
    const py::object functions = torch.attr("_C");
    tensor = attribute(torch, "Tensor");
    strided = attribute(torch, "strided");
    empty = attribute(torch, "empty");
    as_subclass = attribute(tensor, "as_subclass");
    const auto text = [](const char* name) { return py::handle(PyUnicode_InternFromString(name)); };
    cpu = text("cpu");
    layout = text("layout");
    requires_grad = text("requires_grad");
    is_nested = text("is_nested");
    is_neg = text("is_neg");
    ndim = text("ndim");
    device = text("device");
    names = py::make_tuple("dtype", "device").release();
    are_transforms_active = attribute(functions, "_are_functorch_transforms_active");
    dispatch_modes = attribute(functions, "_len_torch_dispatch_stack");
    function_modes = attribute(functions, "_len_torch_function_stack");
    is_profiled = attribute(functions.attr("_autograd"), "_profiler_enabled");
    forward_ad = py::module_::import("torch.autograd.forward_ad").release();
    forward_level = text("_current_level");
    modes_or_transforms_active =
        attribute(py::module_::import("visops._torch.call"), "modes_or_transforms_active");
    for (int i = 0; i <= static_cast<int>(DType::kFloat64); ++i) {
      dtypes[i] = attribute(torch, dtype_name(static_cast<DType>(i)));
    }
    const py::capsule capsule = tensor.attr("__dlpack_c_exchange_api__");
    dlpack = static_cast<const DLPackExchange*>(
        PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (dlpack == nullptr) throw py::error_already_set();
    if (dlpack->major_version != kDLPackMajorVersion || dlpack->tensor_from_object == nullptr) {
      throw std::runtime_error("visops: this torch has another version of DLPack; must be 1");
    }
  }
};

const Torch& torch_api() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Torch> api;
  return api.call_once_and_store_result([] { return Torch(); }).get_stored();
}

bool is_true(py::handle value) { return value.ptr() == Py_True; }

py::object get(py::handle object, py::handle name) {
  PyObject* const found = PyObject_GetAttr(object.ptr(), name.ptr());
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
}

py::object call(py::handle function) {
  PyObject* const found = PyObject_CallNoArgs(function.ptr());
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
}

bool call_is_true(py::handle function) {
  const int found = PyObject_IsTrue(call(function).ptr());
  if (found < 0) throw py::error_already_set();
  return found != 0;
}

// False: visops has no name for it.
bool read_dtype(const DLPackType& type, DType* out) {
  if (type.lanes != 1) return false;
  const int bits = type.bits;
  switch (type.code) {
    case kDLPackBool: *out = DType::kBool; return bits == 8;
    case kDLPackBFloat: *out = DType::kBFloat16; return bits == 16;
    case kDLPackUInt:
      *out = bits == 8 ? DType::kUInt8 : DType::kUInt16;
      return bits == 8 || bits == 16;
    case kDLPackInt:
      *out = bits == 8    ? DType::kInt8
             : bits == 16 ? DType::kInt16
             : bits == 32 ? DType::kInt32
                          : DType::kInt64;
      return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case kDLPackFloat:
      *out = bits == 16 ? DType::kFloat16 : bits == 32 ? DType::kFloat32 : DType::kFloat64;
      return bits == 16 || bits == 32 || bits == 64;
    default: return false;
  }
}

bool look(py::handle tensor, TensorView* view, bool cuda) {
  DLPackTensor found = {};
  if (torch_api().dlpack->tensor_from_object(tensor.ptr(), &found) != 0) {
    PyErr_Clear();  // a kind of tensor that DLPack doesn't know
    return false;
  }
  const bool on_cuda = found.device.type == kDLPackCuda;
  if ((on_cuda ? !cuda : found.device.type != kDLPackCpu) || found.ndim > 5) return false;
  view->device = on_cuda ? found.device.index : kOnCpu;
  if (!read_dtype(found.dtype, &view->dtype)) return false;
  if (found.data == nullptr &&
      std::find(found.shape, found.shape + found.ndim, 0) == found.shape + found.ndim) {
    return false;  // its memory is elsewhere
  }
  view->data = static_cast<char*>(found.data) + found.byte_offset;
  view->rank = found.ndim;
  std::copy_n(found.shape, found.ndim, view->shape.begin());
  std::copy_n(found.strides, found.ndim, view->strides.begin());
  return true;
}

}  // namespace

bool is_plain_tensor(py::handle value) {
  return reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) == torch_api().tensor.ptr();
}

bool is_tensor(py::handle value) {
  const auto* const tensor = reinterpret_cast<PyTypeObject*>(torch_api().tensor.ptr());
  return PyObject_TypeCheck(value.ptr(), const_cast<PyTypeObject*>(tensor)) != 0;
}

py::object as_plain_tensor(py::handle value) {
  if (is_plain_tensor(value)) return py::reinterpret_borrow<py::object>(value);
  return torch_api().as_subclass(value, torch_api().tensor);
}

int rank_of_tensor(py::handle tensor) {
  return static_cast<int>(PyLong_AsLong(get(tensor, torch_api().ndim).ptr()));
}

py::object device_of(py::handle tensor, int number) {
  const Torch& api = torch_api();
  return number == kOnCpu ? py::reinterpret_borrow<py::object>(api.cpu) : get(tensor, api.device);
}

bool view_tensor(py::handle tensor, TensorView* view, bool cuda) {
  const Torch& api = torch_api();
  if (get(tensor, api.layout).ptr() != api.strided.ptr() ||
      is_true(get(tensor, api.requires_grad)) || is_true(get(tensor, api.is_nested))) {
    return false;
  }
  const py::object negated =
      py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(tensor.ptr(), api.is_neg.ptr()));
  if (!negated) throw py::error_already_set();
  return !is_true(negated) && look(tensor, view, cuda);
}

py::object empty_tensor(const std::vector<int64_t>& shape, py::handle dtype, TensorView* view) {
  return empty_tensor(shape, dtype, torch_api().cpu, view);
}

py::object empty_tensor(const std::vector<int64_t>& shape, py::handle dtype, py::handle device,
                        TensorView* view) {
  const Torch& api = torch_api();
  py::tuple sides(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) sides[i] = py::int_(shape[i]);
  PyObject* const arguments[3] = {sides.ptr(), dtype.ptr(), device.ptr()};
  PyObject* const made = PyObject_Vectorcall(api.empty.ptr(), arguments, 1, api.names.ptr());
  if (made == nullptr) {
    py::error_already_set error;
    if (error.type().ptr() != PyExc_RuntimeError) throw error;  // torch.OutOfMemoryError says more
    const std::string text = "visops.transforms: an image of shape " +
                             std::string(shape_text(shape)) +
                             " can't be allocated: not enough memory";
    py::raise_from(error, PyExc_RuntimeError, text.c_str());
    throw py::error_already_set();
  }
  py::object tensor = py::reinterpret_steal<py::object>(made);
  *view = {};
  look(tensor, view, true);
  return tensor;
}

py::handle torch_dtype(DType dtype) { return torch_api().dtypes[static_cast<size_t>(dtype)]; }

bool observers_active() {
  const Torch& api = torch_api();
  if (call_is_true(api.are_transforms_active) || call_is_true(api.dispatch_modes)) return true;
  // A default device is a mode, too, which needs to see nothing.
  if (call_is_true(api.function_modes) && call_is_true(api.modes_or_transforms_active)) return true;
  if (call_is_true(api.is_profiled)) return true;
  return PyLong_AsLong(get(api.forward_ad, api.forward_level).ptr()) >= 0;
}

namespace {

// An array's dtype; false: none that a chain in C++ takes.
bool read_array_dtype(const py::array& array, DType* out) {
  const py::dtype dtype = array.dtype();
  const char order = dtype.byteorder();
  if (order != '=' && order != '|') return false;
  const auto size = dtype.itemsize();
  switch (dtype.kind()) {
    case 'b': *out = DType::kBool; return true;
    case 'u': *out = DType::kUInt8; return size == 1;
    case 'f':
      *out = size == 2 ? DType::kFloat16 : size == 4 ? DType::kFloat32 : DType::kFloat64;
      return size == 2 || size == 4 || size == 8;
    default: return false;
  }
}

}  // namespace

bool view_array(py::handle given, TensorView* view) {
  const auto array = py::reinterpret_borrow<py::array>(given);
  const auto rank = static_cast<int>(array.ndim());
  if (rank > 5 || !read_array_dtype(array, &view->dtype)) return false;
  view->data = const_cast<void*>(array.data());
  view->rank = rank;
  for (int d = 0; d < rank; ++d) {
    const auto at = static_cast<size_t>(d);
    view->shape[at] = array.shape(d);
    if (array.strides(d) < 0 || array.strides(d) % array.itemsize() != 0) return false;
    view->strides[at] = array.strides(d) / array.itemsize();
  }
  return true;
}

namespace {

class DeviceWorkspace final : public CallerWorkspace {
 public:
  DeviceWorkspace(py::object device, void* stream) : device_(std::move(device)), stream_(stream) {}

  void* allocate(int64_t bytes) override {
    TensorView view = {};
    held_.push_back(empty_tensor({bytes}, torch_dtype(DType::kUInt8), device_, &view));
    return view.data;
  }
  void* stream() const override { return stream_; }

 private:
  py::object device_;
  void* stream_;
  std::vector<py::object> held_;
};

}  // namespace

bool is_device(int device) {
  if (device == kOnCpu) return cpu_slot() == Slot::kCudaEmulated;
  return has_cuda_kernels();
}

void run_on_device_of(py::handle like, int device, const std::vector<Stage>& stages,
                      const std::vector<const ChainPlan*>& plans,
                      const std::vector<AugmentImage>& images, DType dtype, const StridedData& to) {
  const auto run = [&](Slot slot, void* stream) {
    DeviceWorkspace workspace(device_of(like, device), stream);
    run_on_device(stages, plans, images, dtype, to, {slot, workspace});
  };
  if (device == kOnCpu) return run(Slot::kCudaEmulated, nullptr);
  with_cuda_device(device, [&](void* stream) { run(Slot::kCuda, stream); });
}

}  // namespace visops
