// Suppression of boxes by lowering scores, on CUDA: NOTE [ Soft suppression on CUDA ] in
// cuda/suppression/soft_nms_rounds.h.
#include "cuda/suppression/soft_nms_rounds.h"

namespace visops {
namespace {

template <class Acc>
struct Upright {
  using Number = Acc;
  using Box = visops::Box<Acc>;

  static __device__ Box load(const NmsParams& p, int64_t candidate) {
    return candidate_box<Acc>(p, candidate);
  }
  static __device__ const Box& bounds_of(const Box& box) { return box; }
  static __device__ Acc overlap(const Box& a, const Box& b) { return overlap_of(a, b); }
};

void soft_nms_cuda(const SoftNmsParams& p, Workspace& workspace) {
  if (p.in_double) {
    launch_soft_nms<Upright<double>>(p, workspace);
  } else {
    launch_soft_nms<Upright<float>>(p, workspace);
  }
}

const bool registered = soft_nms_stub.set(kCudaSlot, soft_nms_cuda);

}  // namespace
}  // namespace visops
