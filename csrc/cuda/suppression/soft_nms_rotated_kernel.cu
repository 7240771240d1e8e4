// Suppression of rotated boxes by lowering scores, on CUDA: NOTE [ Soft suppression on CUDA ] in
// cuda/suppression/soft_nms_rounds.h, with NOTE [ Rotated overlap ].
#include "cuda/suppression/soft_nms_rounds.h"

namespace visops {
namespace {

struct Rotated {
  using Number = double;
  using Box = RotatedBox;

  static __device__ Box load(const NmsParams& p, int64_t candidate) {
    return rotated_candidate_box(p, candidate);
  }
  static __device__ visops::Box<double> bounds_of(const Box& box) { return visops::bounds_of(box); }
  static __device__ double overlap(const Box& a, const Box& b) { return rotated_iou(a, b); }
};

const bool registered = soft_nms_rotated_stub.set(kCudaSlot, launch_soft_nms<Rotated>);

}  // namespace
}  // namespace visops
