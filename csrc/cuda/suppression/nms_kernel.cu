// Greedy suppression on CUDA: NOTE [ Suppression on CUDA ] in cuda/suppression/nms_decide.h.
#include <cmath>

#include "cuda/suppression/nms_decide.h"

namespace visops {
namespace {

template <class Acc>
struct alignas(4 * sizeof(Acc)) Corners {
  Acc x1, y1, x2, y2;

  __device__ Box<Acc> box() const {
    Box<Acc> box = {x1, y1, x2, y2, 0};
    box.area = (x2 - x1) * (y2 - y1);  // as load_box()
    return box;
  }
};

template <class Acc>
struct AxisAligned {
  using Number = Acc;
  using Stored = Corners<Acc>;
  using Outline = Corners<Acc>;

  static __device__ Box<Acc> load(const NmsParams& p, int64_t candidate) {
    return candidate_box<Acc>(p, candidate);
  }
  static __device__ Stored stored(const Box<Acc>& box) { return {box.x1, box.y1, box.x2, box.y2}; }
  static __device__ Stored nothing() {
    const auto inf = static_cast<Acc>(INFINITY);
    return {inf, inf, -inf, -inf};
  }
  static __device__ Box<Acc> bounds(const Stored& box) {
    return {box.x1, box.y1, box.x2, box.y2, 0};
  }
  static __device__ Outline outline(const Stored& box) { return box; }
  // As overlap_of() has it, for boxes that are not inert: differences of unequal numbers aren't 0.
  static __device__ bool meet(const Outline& a, const Outline& b) { return bounds_meet(a, b); }
};

void nms_cuda(const NmsParams& p, Workspace& workspace) {
  if (computes_in_double(p.dtype)) {
    launch_nms<AxisAligned<double>>(p, workspace);
  } else {
    launch_nms<AxisAligned<float>>(p, workspace);
  }
}

const bool registered = nms_stub.set(kCudaSlot, nms_cuda);

}  // namespace
}  // namespace visops
