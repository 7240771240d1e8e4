// The part of DLPack's C interface (dmlc/dlpack, version 1) by which torch says where a tensor's
// elements are. torch's own copy of it can't be included beside its stable interface.
#pragma once

#include <cstdint>

namespace visops {

constexpr uint32_t kDLPackMajorVersion = 1;
constexpr int32_t kDLPackCpu = 1;

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

}  // namespace visops
