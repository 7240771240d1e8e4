// Masks as runs: what fronts and kernels share.
//
// NOTE [ Runs of masks ]
// COCO reads a mask column by column, from the top of the left one. Its pixels are runs of 0s and
// 1s in turn, the first of 0s, which may have no pixels. The library keeps where runs end, counted
// in pixels from the beginning of the mask: the last run of a mask of H x W ends at H W. COCO's
// "counts" are the differences.
#pragma once

#include <cstdint>
#include <vector>

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

// COCO's text for the runs of masks, and what is computed from runs on the host.
//
// NOTE [ Run-length text ]
// Format: cocodataset/cocoapi, common/maskApi.c, rleToString. A count is written as a signed
// number, five bits a character, lowest first: '0' plus the bits, plus 32 where more follow. From
// the fourth count on, the number is the difference to the count two before.

// Runs of masks one after another: NOTE [ Runs of masks ].
struct RunLists {
  const int32_t* ends;     // [offsets[count]]
  const int64_t* offsets;  // [count + 1]
  int64_t count;
};

constexpr int64_t kMostCharacters = 7;  // of a count below 2^31

// Writes the texts of all masks, one after another, and [count + 1] where they begin.
void write_run_text(const RunLists& runs, char* text, int64_t* text_offsets);

// What is wrong with the counts of an entry; ops/masks/rle.py has the sentences.
enum class RunError : int {
  kNone,
  kCharacter,   // detail: its position
  kTruncated,   // detail: the position of the number's first character
  kLongNumber,  // detail: the position of its first character
  kNegative,    // detail: the count
  kSum,         // detail: the sum, or one that is too large already
};

struct RunFailure {
  RunError error;
  int64_t entry, detail;
};

// Reads texts into `ends`, which has room for as many as there are characters, and [count + 1]
// offsets. `pixels` are the sums that counts must have. Stops at the first failure.
RunFailure read_run_text(const char* text, const int64_t* text_offsets, const int64_t* pixels,
                         int64_t count, int32_t* ends, int64_t* offsets);

// The same for counts as numbers; offsets are the counts' own.
RunFailure read_run_counts(const int64_t* counts, const int64_t* offsets, const int64_t* pixels,
                           int64_t count, int32_t* ends);

// Texts of masks, one after another.
struct RunTexts {
  const char* text;
  const int64_t* lengths;  // [count] characters
  const int64_t* pixels;   // [count]
  int64_t count;
};

void run_areas(const RunLists& runs, int64_t* areas);
// Returns whether the texts are counts of so many pixels; read_run_text() says what is wrong.
bool text_areas(const RunTexts& texts, int64_t* areas);

// Overlaps [a.count, b.count] of masks whose columns have `height` pixels: intersection over union,
// or over the area of a's mask where `crowd` [b.count] is not 0. 0 where nothing is in common.
void run_overlaps(const RunLists& a, const RunLists& b, const uint8_t* crowd, int64_t height,
                  double* overlaps);
// The same from texts; `b` may be `a`. Returns what text_areas() does.
bool text_overlaps(const RunTexts& a, const RunTexts& b, const uint8_t* crowd, int64_t height,
                   double* overlaps);

}  // namespace visops
