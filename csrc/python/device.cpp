#include "python/device.h"

#include "core/dispatch/caller_workspace.h"
#include "python/kernels.h"
#include "python/torch_api.h"

namespace visops {
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
