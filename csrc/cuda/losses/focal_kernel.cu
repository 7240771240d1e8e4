// NOTE [ Focal loss on CUDA ]
// A thread has a logit, so a warp reads and writes adjacent elements. Classes are not checked on
// the host, which would have to wait for them.
//
// Rounding: NOTE [ Focal loss ] (core/losses/focal.h), without contraction (-fmad=false), so the
// bits are the CPU's.
#include "core/losses/focal.h"
#include "core/numbers/arithmetic.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;

template <class T, bool is_backward, bool is_square>
__global__ void __launch_bounds__(kThreads)
    focal_losses(const __grid_constant__ FocalParams p, const int64_t count) {
  using Acc = typename Accumulate<T>::type;
  const FocalNumbers<Acc> numbers = focal_numbers<Acc>(p);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    Acc target;
    if (p.labels == nullptr) {
      target = load_element(static_cast<const T*>(p.targets) + i);
    } else {
      const int64_t row = i / p.classes;
      target = static_cast<Acc>(p.labels[row] == i - row * p.classes ? 1 : 0);
    }
    const Acc x = load_element(static_cast<const T*>(p.logits) + i);
    Acc value = focal_value<is_backward, is_square, Acc>(x, target, numbers);
    if (is_backward) value *= load_element(static_cast<const T*>(p.grad) + i);
    store_element(static_cast<T*>(p.output) + i, value);
  }
}

template <bool is_backward>
void focal_cuda(const FocalParams& p, Workspace& workspace) {
  const int64_t count = p.rows * p.classes;
  with_focal_form(p, [&](auto* type, auto is_square) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch(focal_losses<T, is_backward, is_square.value>, grid_for(parts_of(count, kThreads)),
           dim3(kThreads), 0, workspace.stream(), p, count);
  });
}

const bool registered = focal_loss_stub.set(kCudaSlot, focal_cuda<false>) &&
                        focal_loss_backward_stub.set(kCudaSlot, focal_cuda<true>);

}  // namespace
}  // namespace visops
