// Gradients of convolution that aren't convolutions themselves: what the fronts and kernels share.
//
// The input's gradient starts as a convolution of the output's gradient with the reversed kernel,
// over the extended input. The gradients of extended elements are then folded back onto the
// elements that they repeat.
//
// NOTE [ Folding an extension ]
// An element's gradient starts at 0 and sums over the extended columns that repeat it, ascending.
// Each term itself starts at 0 and sums over the extended rows, ascending.
//
// NOTE [ Sums of the kernel's gradient ]
// An element of the kernel's gradient is a sum over the whole output, in chunks of kChunkRows rows
// by kChunkColumns columns. Within a chunk, its column j is added to lane j mod 32, row by row;
// then the lanes are halved into one (NOTE [ Lane sums ]). Chunks are added to 0 by rows, then
// columns; a batch, if summed, entry by entry. Complex terms: NOTE [ Convolution's sums ], with the
// output's gradient as the weight. Halves stay float32 until the end.
#pragma once

#include "core/convolution/convolve2d.h"
#include "core/convolution/convolve2d_element.h"
#include "core/numbers/lane_sum.h"

namespace visops {

// grad [count, height, width] -> result [count, input_height, input_width], contiguous. The first
// element of grad belongs to (start_y, start_x) of the extended input.
struct ConvolveFoldParams {
  const void* grad;
  void* result;
  int64_t count, height, width, input_height, input_width;
  int64_t start_y, start_x;
  Padding boundary;
  Arithmetic kind;
};

extern KernelStub<ConvolveFoldParams> convolve2d_fold_stub;

// The indices of an extended axis, from `start` on, that repeat element i of n: `first`, then
// alternately steps[0] and steps[1] further.
struct Repeats {
  int64_t first;
  int64_t steps[2];
};

VISOPS_FN int64_t least_congruent(int64_t value, int64_t from, int64_t period) {
  const int64_t r = (value - from) % period;
  return from + (r < 0 ? r + period : r);
}

// Counted from `start`. For kConstant the second index is out of reach.
VISOPS_FN Repeats repeats_of(Padding boundary, int64_t i, int64_t n, int64_t start) {
  if (boundary == Padding::kCircular) return {least_congruent(i, start, n) - start, {n, n}};
  if (boundary == Padding::kSymmetric) {
    const int64_t there = least_congruent(i, start, 2 * n);
    const int64_t back = least_congruent(2 * n - 1 - i, start, 2 * n);
    const int64_t step = there < back ? back - there : there - back;
    return {(there < back ? there : back) - start, {step, 2 * n - step}};
  }
  const int64_t far = int64_t{1} << 61;
  return {i < start ? far : i - start, {far, far}};
}

constexpr int64_t kChunkRows = 16;
constexpr int64_t kChunkColumns = 2048;

// (grad, input) -> result; those two are the batch's operands.
struct ConvolveTapsParams {
  const void* grad;
  ConvolvePlane grad_plane;
  const void* input;
  ConvolvePlane input_plane;
  ConvolveBatch batch;
  Arithmetic kind;
  Padding boundary;
  int64_t start_y, start_x;  // of a correlation
  bool flips;                // where the kernel's last element is that correlation's first
  alignas(16) unsigned char fill[kLargestElement];
  int64_t kernel_height, kernel_width;

  int64_t chunk_rows, chunk_columns;  // how many chunks there are, down and across
  int64_t partial_bytes;              // of all chunks' sums

  bool sums_batch;
  void* result;  // [batch.count or 1, kernel_height, kernel_width] contiguous
};

extern KernelStub<ConvolveTapsParams> convolve2d_taps_stub;

// Writes element i of the result from its chunks' sums, `partial`: [batch.count, chunks,
// kernel_height, kernel_width], complex if T is.
template <class T>
VISOPS_FN void sum_chunks(const ConvolveTapsParams& p, const void* partial, int64_t i) {
  using Element = ConvolveElement<T>;
  using Sum = typename Element::Sum;
  const int64_t taps = p.kernel_height * p.kernel_width;
  const int64_t tap = i % taps, of_entry = p.chunk_rows * p.chunk_columns;
  const int64_t count = p.sums_batch ? p.batch.count * of_entry : of_entry;
  const Sum* chunk = static_cast<const Sum*>(partial) + i / taps * of_entry * taps + tap;
  Sum sum = {};
  for (int64_t c = 0; c < count; ++c) add_to(sum, chunk[c * taps]);
  const int64_t at = p.flips ? taps - 1 - tap : tap;
  Element::store(static_cast<T*>(p.result) + (i - tap) + at, sum);
}

// Sets the chunks; throws where sizes of scratch memory would overflow.
void set_chunks(const char* op, ConvolveTapsParams* p);

// Bytes of what an element is summed in, both parts of a complex one.
int64_t sum_size(Arithmetic kind);

}  // namespace visops
