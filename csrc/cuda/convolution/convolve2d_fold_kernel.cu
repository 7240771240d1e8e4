// NOTE [ Folding on CUDA ]
// A thread has an element of the result and adds what repeats it, in the order of
// NOTE [ Folding an extension ]: the bits are the CPU's.
#include <type_traits>

#include "core/convolution/convolve2d.h"
#include "core/dispatch/workspace.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) fold(const __grid_constant__ ConvolveFoldParams p) {
  using Element = ConvolveElement<T>;
  using Sum = typename Element::Sum;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t total = p.count * p.input_height * p.input_width;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; at < total;
       at += stride) {
    const int64_t row = at / p.input_width, x = at % p.input_width;
    const T* grad = static_cast<const T*>(p.grad) + row / p.input_height * p.height * p.width;
    const Repeats rows = repeats_of(p.boundary, row % p.input_height, p.input_height, p.start_y);
    const Repeats columns = repeats_of(p.boundary, x, p.input_width, p.start_x);
    Sum sum = {};
    int turn = 0;
    for (int64_t v = columns.first; v < p.width; v += columns.steps[turn], turn = 1 - turn) {
      Sum column = {};
      int row_turn = 0;
      for (int64_t u = rows.first; u < p.height;
           u += rows.steps[row_turn], row_turn = 1 - row_turn) {
        add_to(column, Element::load(grad + u * p.width + v));
      }
      add_to(sum, column);
    }
    Element::store(static_cast<T*>(p.result) + at, sum);
  }
}

void convolve2d_fold_launch(const ConvolveFoldParams& p, Workspace& workspace) {
  const int64_t total = p.count * p.input_height * p.input_width;
  with_convolve_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch(fold<T>, grid_for((total + kThreads - 1) / kThreads), dim3(kThreads), 0,
           workspace.stream(), p);
  });
}

const bool registered = convolve2d_fold_stub.set(kCudaSlot, convolve2d_fold_launch);

}  // namespace
}  // namespace visops
