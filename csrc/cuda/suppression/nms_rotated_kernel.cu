// Greedy suppression of rotated boxes on CUDA: NOTE [ Suppression on CUDA ] in
// cuda/suppression/nms_decide.h, with NOTE [ Rotated overlap ].
#include <cmath>

#include "cuda/suppression/nms_decide.h"

namespace visops {
namespace {

struct StoredRotated {
  RotatedBox whole;
  __device__ const RotatedBox& box() const { return whole; }
};

// The circle through the corners.
struct Circle {
  double x, y, radius;
};

struct Rotated {
  using Number = double;
  using Stored = StoredRotated;
  using Outline = Circle;

  static __device__ RotatedBox load(const NmsParams& p, int64_t candidate) {
    return rotated_candidate_box(p, candidate);
  }
  static __device__ Stored stored(const RotatedBox& box) { return {box}; }
  static __device__ Stored nothing() {
    StoredRotated none = {};
    none.whole.x = NAN;
    return none;
  }
  static __device__ Box<double> bounds(const Stored& box) {
    return is_inert(box.whole) ? visops::nothing<double>() : bounds_of(box.whole);
  }
  static __device__ Outline outline(const Stored& box) {
    return {box.whole.x, box.whole.y, box.whole.radius};
  }
  static __device__ bool meet(const Outline& a, const Outline& b) { return circles_meet(a, b); }
};

const bool registered = nms_rotated_stub.set(kCudaSlot, launch_nms<Rotated>);

}  // namespace
}  // namespace visops
