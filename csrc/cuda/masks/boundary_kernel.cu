// The boundaries of masks on CUDA.
//
// NOTE [ Boundaries on CUDA ]
// Strategy: a thread has a word of 64 pixels. One kernel joins it with itself, moved by every step
// up to the distance in both directions; the next joins that with the rows around it. Both stop
// once no pixel is left. Neighbouring threads read neighbouring words.
//
// Split: threads stride over words.
#include "core/dispatch/workspace.h"
#include "core/masks/boundary.h"
#include "core/masks/packed.h"
#include "cuda/threads.h"

namespace visops {
namespace {

__global__ void __launch_bounds__(kThreads)
    erode_columns(const __grid_constant__ BoundaryParams p, uint64_t* eroded) {
  for (int64_t at = first_thread(); at < p.count * p.height * p.words; at += all_threads()) {
    const int64_t row = at / p.words, word = at - row * p.words;
    const uint64_t* bits = p.bits + row * p.words;
    uint64_t left = bits[word];
    for (int64_t step = -p.distance; step <= p.distance && left != 0; ++step) {
      const int64_t first =
          step >= 0 ? step / kPixelsPerWord : -((-step + kPixelsPerWord - 1) / kPixelsPerWord);
      const int shift = static_cast<int>(step - first * kPixelsPerWord);
      const int64_t w = word + first;
      uint64_t moved = w >= 0 && w < p.words ? bits[w] >> shift : 0;
      if (shift > 0 && w + 1 >= 0 && w + 1 < p.words) {
        moved |= bits[w + 1] << (kPixelsPerWord - shift);
      }
      left &= moved;
    }
    eroded[at] = left;
  }
}

__global__ void __launch_bounds__(kThreads)
    find_boundaries(const __grid_constant__ BoundaryParams p, const uint64_t* eroded) {
  for (int64_t at = first_thread(); at < p.count * p.height * p.words; at += all_threads()) {
    const int64_t y = at / p.words % p.height;
    uint64_t left = y >= p.distance && y + p.distance < p.height ? eroded[at] : 0;
    for (int64_t step = 1; step <= p.distance && left != 0; ++step) {
      left &= eroded[at - step * p.words] & eroded[at + step * p.words];
    }
    p.boundaries[at] = p.bits[at] & ~left;
  }
}

void boundary_cuda(const BoundaryParams& p, Workspace& workspace) {
  const int64_t all = p.count * p.height * p.words;
  uint64_t* eroded = allocate<uint64_t>(workspace, all);
  void* stream = workspace.stream();
  launch(erode_columns, grid_of_threads(all), dim3(kThreads), 0, stream, p, eroded);
  launch(find_boundaries, grid_of_threads(all), dim3(kThreads), 0, stream, p, eroded);
}

const bool registered = boundary_stub.set(kCudaSlot, boundary_cuda);

}  // namespace
}  // namespace visops
