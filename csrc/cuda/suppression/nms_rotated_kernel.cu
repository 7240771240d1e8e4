// Greedy suppression of rotated boxes on CUDA: NOTE [ Suppression on CUDA ] in
// cuda/suppression/nms_rounds.h, with NOTE [ Rotated overlap ].
#include "cuda/suppression/nms_rounds.h"

namespace visops {
namespace {

struct StoredRotated {
  RotatedBox whole;
  __device__ const RotatedBox& box() const { return whole; }
};

struct Rotated {
  using Number = double;
  using Box = RotatedBox;
  using Stored = StoredRotated;

  static __device__ Box load(const NmsParams& p, int64_t candidate) {
    return rotated_candidate_box(p, candidate);
  }
  static __device__ Stored stored(const Box& box) { return {box}; }
};

const bool registered = nms_rotated_stub.set(kCudaSlot, launch_nms<Rotated>);

}  // namespace
}  // namespace visops
