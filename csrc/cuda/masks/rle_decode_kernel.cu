// Runs to masks as bits, on CUDA.
//
// NOTE [ Masks of runs on CUDA ]
// Strategy: NOTE [ Masks of runs on the CPU ]. A thread has a run and flips bits of words that
// others may flip too. Then a thread goes down a word's rows and adds each to the one above.
//
// Split: threads stride over words, runs, and the words of rows of all masks. Flips are exclusive
// ors, in any order. Offsets are on the device, where nobody has looked at them: they are kept
// within the runs.
#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "core/masks/rle.h"
#include "cuda/threads.h"

namespace visops {
namespace {

__global__ void __launch_bounds__(kThreads) clear_bits(const __grid_constant__ RunsToBitsParams p) {
  const int64_t all = p.count * p.height * words_of(p.width);
  for (int64_t at = first_thread(); at < all; at += all_threads()) p.bits[at] = 0;
}

// The mask that a run belongs to: the last that begins at it or before.
__device__ inline int64_t mask_of(const RunsToBitsParams& p, int64_t run) {
  int64_t low = 0, high = p.count;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (p.offsets[middle] <= run) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void __launch_bounds__(kThreads) flip_runs(const __grid_constant__ RunsToBitsParams p) {
  const int64_t words = words_of(p.width), pixels = p.height * p.width;
  for (int64_t run = first_thread(); run < p.runs; run += all_threads()) {
    const int64_t mask = mask_of(p, run), first = p.offsets[mask];
    if (run <= first || (run - first) % 2 == 0) continue;  // of 0s
    uint64_t* bits = p.bits + mask * p.height * words;
    const RunOfPixels found = {run_end(p.ends, run - 1, pixels), run_end(p.ends, run, pixels)};
    flips_of_run(found, p.height, [&](int64_t x1, int64_t x2, int64_t y) {
      for (int64_t w = x1 / kPixelsPerWord; w <= (x2 - 1) / kPixelsPerWord; ++w) {
        const int64_t begin = x1 - w * kPixelsPerWord, end = x2 - w * kPixelsPerWord;
        const uint64_t from = ~uint64_t{0} << (begin > 0 ? begin : 0);
        const uint64_t to = ~uint64_t{0} >> (end < kPixelsPerWord ? kPixelsPerWord - end : 0);
        atomicXor(reinterpret_cast<unsigned long long*>(bits + y * words + w),
                  static_cast<unsigned long long>(from & to));
      }
    });
  }
}

__global__ void __launch_bounds__(kThreads) add_rows(const __grid_constant__ RunsToBitsParams p) {
  const int64_t words = words_of(p.width);
  for (int64_t at = first_thread(); at < p.count * words; at += all_threads()) {
    const int64_t mask = at / words;
    uint64_t* word = p.bits + mask * p.height * words + (at - mask * words);
    uint64_t above = 0;
    for (int64_t y = 0; y < p.height; ++y) {
      above ^= word[y * words];
      word[y * words] = above;
    }
  }
}

void runs_to_bits_cuda(const RunsToBitsParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  const int64_t words = words_of(p.width);
  const dim3 threads(kThreads);
  launch(clear_bits, grid_of_threads(p.count * p.height * words), threads, 0, stream, p);
  launch(flip_runs, grid_of_threads(p.runs), threads, 0, stream, p);
  launch(add_rows, grid_of_threads(p.count * words), threads, 0, stream, p);
}

const bool registered = runs_to_bits_stub.set(kCudaSlot, runs_to_bits_cuda);

}  // namespace
}  // namespace visops
