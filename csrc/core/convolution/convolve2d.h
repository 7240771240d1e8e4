// Convolution of two-dimensional arrays: what the fronts and kernels share.
//
// NOTE [ Convolution's sums ]
// Every call becomes a correlation: to flip the kernel, the front negates its strides.
//   output[i, j] = sum over m, n of kernel[m, n] * extended input[start_y + i + m, start_x + j + n]
// Sums start at 0 and go by ascending m, then ascending n; each product is rounded before it is
// added. The order is the same on every device, instruction set and thread count. Halves are summed
// in float32, integers modulo 2^bits. Each complex term adds, in this order:
//   re += k.re * x.re,  re -= k.im * x.im,  im += k.re * x.im,  im += k.im * x.re
// Elements beyond the input, the fill value included, are multiplied like any other: an infinite
// weight has the same effect there as inside.
#pragma once

#include "core/dispatch/kernel_stub.h"
#include "core/images/pixel.h"
#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "core/numbers/lane_sum.h"

namespace visops {

// A plane; strides in elements, which may be 0 or negative.
struct ConvolvePlane {
  int64_t height, width;
  int64_t row_stride, column_stride;
};

// The leading dimensions; an operand may be repeated along one (stride 0).
constexpr int kMostConvolveDims = 6;
struct ConvolveBatch {
  int dims;
  int64_t count;  // product of the sizes
  int64_t sizes[kMostConvolveDims];
  int64_t strides[2][kMostConvolveDims];  // of each operand, in elements
};

struct ConvolveOffsets {
  int64_t first, second;  // operands
};

VISOPS_FN ConvolveOffsets offsets_of(const ConvolveBatch& batch, int64_t entry) {
  ConvolveOffsets offsets = {0, 0};
  for (int d = batch.dims; d-- > 0;) {
    const int64_t i = d == 0 ? entry : entry % batch.sizes[d];  // few have more than one
    if (d > 0) entry /= batch.sizes[d];
    offsets.first += i * batch.strides[0][d];
    offsets.second += i * batch.strides[1][d];
  }
  return offsets;
}

// Forward: (input, kernel) -> output. The batch's operands are input and kernel.
struct ConvolveParams {
  const void* input;
  ConvolvePlane input_plane;
  const void* kernel;
  ConvolvePlane kernel_plane;
  ConvolveBatch batch;
  Arithmetic kind;
  Padding boundary;  // kConstant, kCircular or kSymmetric
  int64_t start_y, start_x;
  // One element; zeros unless the boundary is kConstant.
  alignas(16) unsigned char fill[kLargestElement];

  void* output;  // [batch.count, output_height, output_width] contiguous
  int64_t output_height, output_width;
};

extern KernelStub<ConvolveParams> convolve2d_stub;

Padding parse_boundary(const char* op, const std::string& name);

// Bounds where the output begins and ends, so that no index overflows.
void check_extent(const char* op, const int64_t (&start)[2], const char* size_name,
                  const int64_t (&size)[2]);

// The shapes are for messages.
void check_planes(const char* op, const std::string& input_shape, const ConvolvePlane& input,
                  const std::string& kernel_shape, const ConvolvePlane& kernel, Padding boundary);

// Throws where the size of scratch memory would overflow.
void check_kernel_size(const char* op, const ConvolveParams& p);

// NOTE [ Convolution's sums ] for single elements: the type that each is summed in, and how a
// product is added.

template <class T>
struct Complex {
  T re, im;
};

// For elements stored as T: the type of sums, and conversions. Narrow integers are summed in 32
// bits, which leaves their own bits the same.
template <class T>
struct ConvolveElement {
  using Sum = T;
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE Sum load(const T* p) { return *p; }
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE void store(T* p, Sum sum) { *p = sum; }
};
template <class T>
struct NarrowElement {
  using Sum = uint32_t;
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE Sum load(const T* p) { return *p; }
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE void store(T* p, Sum sum) { *p = static_cast<T>(sum); }
};
template <>
struct ConvolveElement<uint8_t> : NarrowElement<uint8_t> {};
template <>
struct ConvolveElement<uint16_t> : NarrowElement<uint16_t> {};
template <class T>
struct HalfElement {
  using Sum = float;
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE Sum load(const T* p) { return load_element(p); }
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE void store(T* p, Sum sum) { store_element(p, sum); }
};
template <>
struct ConvolveElement<Half> : HalfElement<Half> {};
template <>
struct ConvolveElement<BFloat16> : HalfElement<BFloat16> {};

template <class T>
VISOPS_FN void add_product(T& sum, T weight, T value) {
  sum = sum + weight * value;
}
template <class T>
VISOPS_FN void add_product(Complex<T>& sum, Complex<T> weight, Complex<T> value) {
  sum.re = sum.re + weight.re * value.re;
  sum.re = sum.re - weight.im * value.im;
  sum.im = sum.im + weight.re * value.im;
  sum.im = sum.im + weight.im * value.re;
}

template <class T>
VISOPS_FN void add_to(T& sum, T value) {
  sum = sum + value;
}
template <class T>
VISOPS_FN void add_to(Complex<T>& sum, Complex<T> value) {
  sum.re = sum.re + value.re;
  sum.im = sum.im + value.im;
}

// Host only: calls with a null pointer to the stored type. Only types with gradients.
template <class Call>
static void with_differentiable_type(Arithmetic kind, Call call) {
  switch (kind) {
    case Arithmetic::kFloat16: return call(static_cast<Half*>(nullptr));
    case Arithmetic::kBFloat16: return call(static_cast<BFloat16*>(nullptr));
    case Arithmetic::kFloat32: return call(static_cast<float*>(nullptr));
    case Arithmetic::kFloat64: return call(static_cast<double*>(nullptr));
    case Arithmetic::kComplex64: return call(static_cast<Complex<float>*>(nullptr));
    case Arithmetic::kComplex128: return call(static_cast<Complex<double>*>(nullptr));
    default: return;  // refused by the front
  }
}

// The same for all types. The sign of integers doesn't matter.
template <class Call>
static void with_convolve_type(Arithmetic kind, Call call) {
  switch (kind) {
    case Arithmetic::kInt8: return call(static_cast<uint8_t*>(nullptr));
    case Arithmetic::kInt16: return call(static_cast<uint16_t*>(nullptr));
    case Arithmetic::kInt32: return call(static_cast<uint32_t*>(nullptr));
    case Arithmetic::kInt64: return call(static_cast<uint64_t*>(nullptr));
    default: return with_differentiable_type(kind, call);
  }
}

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

// How the CPU cuts a convolution, or the gradient of its kernel, into tasks, and how a task lays
// out its scratch memory.

// The most rows of the output that a task sums together, which share what is read, and the columns
// that a row of scratch has room for.
constexpr int64_t kConvolveRows = 6;
constexpr int64_t kConvolveColumns = 8192;
constexpr int64_t kTransposedColumns = 1024;
// Bytes that may be read beyond a row of scratch: its last vector is read whole.
constexpr int64_t kConvolveSlack = 256;
// Bytes of a complex weight: each part is repeated to fill 16.
constexpr int64_t kComplexWeight = 32;

// Scratch of a task, as bytes from its beginning. A term is what an element is summed in; a complex
// number is a pair.
struct ConvolveLayout {
  int64_t slots;       // rows of the input that are there at a time, at most
  int64_t slot_terms;  // of a slot
  int64_t weights, row_pointers, fill_row, sums, ring, bytes;
};

// NOTE [ Narrow outputs ]
// Vectors hold neighbours of a row, so an output of few columns would leave most of each vector
// empty. Such a problem is transposed: its columns become rows. The order of sums stays: the kernel
// is then read column by column, and results are stored where they belong.
struct ConvolvePlan {
  bool transposes;
  int64_t parts;  // tasks that share bands of up to kConvolveRows rows of the output, or, where the
                  // problem is transposed, pieces of kTransposedColumns columns
  ConvolveLayout layout;
  int64_t scratch_bytes;  // of all parts
};

struct ConvolveTapsPlan {
  int64_t parts;                  // tasks that share the chunks
  int64_t grad_bytes, row_bytes;  // a part's scratch begins with grad's rows and an input row
  int64_t part_bytes, scratch_bytes;
};

// Returns the problem with rows and columns exchanged. Its output stays where it is.
ConvolveParams transposed(const ConvolveParams& p);

// The plan of a problem, or of the transposed one where the plan says so.
ConvolvePlan plan_convolve2d(const ConvolveParams& p, int64_t threads);
ConvolveTapsPlan plan_convolve2d_taps(const ConvolveTapsParams& p, int64_t threads);

}  // namespace visops
