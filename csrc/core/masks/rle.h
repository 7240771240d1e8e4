// Masks as runs: what fronts and kernels share.
//
// NOTE [ Runs of masks ]
// COCO reads a mask column by column, from the top of the left one. Its pixels are runs of 0s and
// 1s in turn, the first of 0s, which may have no pixels. The library keeps where runs end, counted
// in pixels from the beginning of the mask: the last run of a mask of H x W ends at H W. COCO's
// "counts" are the differences (core/masks/rle_text.h).
#pragma once

#include "core/dispatch/kernel_stub.h"

namespace visops {

struct MasksToRunsParams {
  const uint8_t* pixels;  // [count, height, width]; those that are not 0 are inside
  const uint64_t* bits;   // [count, height, words] instead of pixels: NOTE [ Packed masks ]
  int64_t count, height, width;

  int64_t* offsets;  // [count + 1] where masks' runs begin among all, and how many there are
  // Memory for all runs, where the kernel works. The kernel calls it once offsets are written, or
  // will be by the stream.
  int32_t* (*make_ends)(void* context);
  void* context;
};

// Ends may have any values: those outside of a mask are moved to its border, and runs that end
// before they begin have no pixels.
struct RunsToBitsParams {
  const int32_t* ends;     // [runs]
  const int64_t* offsets;  // [count + 1]
  int64_t runs, count, height, width;
  uint64_t* bits;  // [count, height, words]
};

// The pixels of run k of a mask, given its ends.
struct RunOfPixels {
  int64_t begin, end;
};

VISOPS_FN int64_t run_end(const int32_t* ends, int64_t k, int64_t pixels) {
  const int64_t end = ends[k];
  return end < 0 ? 0 : end > pixels ? pixels : end;
}

// Calls flip(x1, x2, y) for columns [x1, x2) of rows y such that a pixel is inside where an odd
// number of the flips of its column are in its row or above it.
template <class Flip>
VISOPS_FN void flips_of_run(const RunOfPixels& run, int64_t height, const Flip& flip) {
  if (run.begin >= run.end) return;
  const int64_t first = run.begin / height, last = (run.end - 1) / height;
  flip(first, first + 1, run.begin - first * height);
  if (first < last) flip(first + 1, last + 1, int64_t{0});
  const int64_t below = run.end - last * height;  // the first row outside, in the last column
  if (below < height) flip(last, last + 1, below);
}

// CPU kernels take ranges of masks.
inline KernelStub<MasksToRunsParams> masks_to_runs_stub{"masks_to_runs"};
inline KernelStub<RunsToBitsParams> runs_to_bits_stub{"runs_to_bits"};

}  // namespace visops
