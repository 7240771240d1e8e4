// Tells the checks which tensors a front gives to its kernels.
//
// The library is linked with --wrap for the functions of torch below, so that its calls of them
// come here first. A tensor's memory may be touched from when the front has asked for its address
// until it lets go of the tensor. What a front allocates itself has to be written before it is
// read, by a kernel or, since others can't be watched, by whatever torch operator is called next.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <mutex>
#include <set>
#include <string>

#include "memory.h"

using cuda_emulation::check::forget;
using cuda_emulation::check::others_write;
using cuda_emulation::check::remember;

namespace {

std::mutex fresh_mutex;
std::set<const void*> fresh;  // tensors made by fronts

void remember_tensor(AtenTensorHandle tensor, const void* data) {
  int32_t device = 0, dtype = 0;
  int64_t dims = 0, *sizes = nullptr, *strides = nullptr;
  if (aoti_torch_get_device_type(tensor, &device) != AOTI_TORCH_SUCCESS) return;
  if (device != aoti_torch_device_type_cpu()) return;
  if (aoti_torch_get_dtype(tensor, &dtype) != AOTI_TORCH_SUCCESS ||
      aoti_torch_get_dim(tensor, &dims) != AOTI_TORCH_SUCCESS ||
      aoti_torch_get_sizes(tensor, &sizes) != AOTI_TORCH_SUCCESS ||
      aoti_torch_get_strides(tensor, &strides) != AOTI_TORCH_SUCCESS) {
    return;
  }
  int64_t last = 0;
  bool is_empty = false;
  std::string shape = "[";
  for (int64_t d = 0; d < dims; ++d) {
    is_empty = is_empty || sizes[d] == 0;
    last += (sizes[d] - 1) * strides[d];
    shape += (d == 0 ? "" : ", ") + std::to_string(sizes[d]);
  }
  if (is_empty) return;
  const size_t bytes = static_cast<size_t>(last + 1) * aoti_torch_dtype_element_size(dtype);
  bool is_fresh = false;
  {
    const std::lock_guard<std::mutex> lock(fresh_mutex);
    is_fresh = fresh.count(tensor) != 0;
  }
  remember(tensor, data, bytes, is_fresh, shape + "]");
}

}  // namespace

extern "C" {

AOTITorchError __real_torch_get_mutable_data_ptr(AtenTensorHandle tensor, void** data);
AOTITorchError __wrap_torch_get_mutable_data_ptr(AtenTensorHandle tensor, void** data) {
  const AOTITorchError error = __real_torch_get_mutable_data_ptr(tensor, data);
  if (error == AOTI_TORCH_SUCCESS) remember_tensor(tensor, *data);
  return error;
}

AOTITorchError __real_torch_get_const_data_ptr(AtenTensorHandle tensor, const void** data);
AOTITorchError __wrap_torch_get_const_data_ptr(AtenTensorHandle tensor, const void** data) {
  const AOTITorchError error = __real_torch_get_const_data_ptr(tensor, data);
  if (error == AOTI_TORCH_SUCCESS) remember_tensor(tensor, *data);
  return error;
}

AOTITorchError __real_aoti_torch_empty_strided(int64_t dims, const int64_t* sizes,
                                               const int64_t* strides, int32_t dtype,
                                               int32_t device, int32_t index,
                                               AtenTensorHandle* tensor);
AOTITorchError __wrap_aoti_torch_empty_strided(int64_t dims, const int64_t* sizes,
                                               const int64_t* strides, int32_t dtype,
                                               int32_t device, int32_t index,
                                               AtenTensorHandle* tensor) {
  const AOTITorchError error =
      __real_aoti_torch_empty_strided(dims, sizes, strides, dtype, device, index, tensor);
  if (error == AOTI_TORCH_SUCCESS) {
    const std::lock_guard<std::mutex> lock(fresh_mutex);
    fresh.insert(*tensor);
  }
  return error;
}

AOTITorchError __real_aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
AOTITorchError __wrap_aoti_torch_delete_tensor_object(AtenTensorHandle tensor) {
  {
    const std::lock_guard<std::mutex> lock(fresh_mutex);
    fresh.erase(tensor);
  }
  forget(tensor);
  return __real_aoti_torch_delete_tensor_object(tensor);
}

AOTITorchError __real_torch_call_dispatcher(const char* name, const char* overload,
                                            StableIValue* stack, uint64_t version);
AOTITorchError __wrap_torch_call_dispatcher(const char* name, const char* overload,
                                            StableIValue* stack, uint64_t version) {
  {
    const std::lock_guard<std::mutex> lock(fresh_mutex);
    fresh.clear();
  }
  others_write();
  return __real_torch_call_dispatcher(name, overload, stack, version);
}

}  // extern "C"
