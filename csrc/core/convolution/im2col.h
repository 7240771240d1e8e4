// im2col and its adjoint col2im: what the fronts and kernels share.
//
// A window of kernel_size elements, `dilation` apart, moves in steps of `stride` over the last
// dimensions of an image that is padded on each side. im2col copies what the window sees at every
// place; col2im adds everything back to where it came from:
//
//   column(lead, k, o) = image(lead, o * stride + k * dilation - before), or fill outside of it
//
// NOTE [ Layouts of columns ]
//   unfold   [lead, k, o]: rows of a matrix to multiply by, as torch's unfold
//   patches  [lead, o, k]: the window at every place, as NumPy's sliding_window_view
// o and k have one index for each dimension of the window. Here there are always four: missing ones
// come first and have size 1.
//
// NOTE [ Sums of col2im ]
// An element of the image starts at 0 and sums the columns that see it by ascending k: on every
// device, in both layouts, at any thread count. Halves are summed in float32; integers wrap;
// booleans are "or"; complex numbers are two reals.
#pragma once

#include <string>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"

namespace visops {

constexpr int kWindowDims = 4;
constexpr int kLeadDims = 4;

// One dimension that the window moves over.
struct WindowDim {
  int64_t size, positions, kernel, stride, dilation, before;
};

struct Im2colParams {
  WindowDim dim[kWindowDims];
  int64_t kernel_elements, positions;  // of all dimensions
  bool is_patches;

  // The image's sizes and strides, in elements. Its last dimension has stride 1.
  int64_t lead_size[kLeadDims], lead_stride[kLeadDims], lead;
  int64_t stride[kWindowDims];

  int64_t element_size;                 // bytes
  Arithmetic arithmetic;                // col2im only
  unsigned char fill[kLargestElement];  // im2col only

  // im2col only: tasks, set by set_im2col_tasks(). A task has one lead index, one place in the
  // first two dimensions, some rows of places in the last two, and some places of each row.
  bool is_staged;  // NOTE [ Staged rows ] in csrc/cpu/convolution/im2col_kernel.cpp
  int64_t bands, band_rows, segments, segment_positions;

  const void* source;  // im2col: the image; col2im: contiguous columns
  void* result;        // contiguous
};

extern KernelStub<Im2colParams> im2col_stub;
extern KernelStub<Im2colParams> col2im_stub;

// Whether columns are patches; throws for an unknown layout.
bool parse_column_layout(const char* op, const std::string& layout);

// Sets dim, kernel_elements and places. `sizes` are the last dimensions of the argument `name`;
// padding is before each dimension, then after each.
void set_windows(const char* op, const char* name, const std::vector<int64_t>& sizes,
                 const std::vector<int64_t>& kernel_size, const std::vector<int64_t>& stride,
                 const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation,
                 Im2colParams* p);

void set_im2col_tasks(Im2colParams* p);

// The most bytes that a task stages.
constexpr int64_t kStageBytes = int64_t{1} << 16;

// How many places the first two dimensions have.
VISOPS_FN int64_t outer_position_count(const Im2colParams& p) {
  return p.dim[0].positions * p.dim[1].positions;
}
VISOPS_FN int64_t im2col_tasks(const Im2colParams& p) {
  return p.lead * outer_position_count(p) * p.bands * p.segments;
}
// Rows of an image, over all dimensions but the last.
VISOPS_FN int64_t image_rows(const Im2colParams& p) {
  return p.dim[0].size * p.dim[1].size * p.dim[2].size;
}

// How many elements of the image `positions` places cover in one dimension.
VISOPS_FN int64_t covered_by(const WindowDim& dim, int64_t positions) {
  return (positions - 1) * dim.stride + (dim.kernel - 1) * dim.dilation + 1;
}

// Where a lead index begins in the image, in elements.
VISOPS_FN int64_t lead_offset(const Im2colParams& p, int64_t lead) {
  int64_t offset = 0;
  for (int d = kLeadDims - 1; d >= 0; --d) {
    const int64_t rest = lead / p.lead_size[d];
    offset += (lead - rest * p.lead_size[d]) * p.lead_stride[d];
    lead = rest;
  }
  return offset;
}

// Indices in the first three dimensions, from a row-major `index`.
struct OuterIndex {
  int64_t at[kWindowDims - 1];
};

VISOPS_FN OuterIndex outer_index(int64_t index, int64_t size1, int64_t size2) {
  OuterIndex outer;
  outer.at[2] = index % size2;
  index /= size2;
  outer.at[1] = index % size1;
  outer.at[0] = index / size1;
  return outer;
}

VISOPS_FN OuterIndex outer_image(const Im2colParams& p, int64_t row) {
  return outer_index(row, p.dim[1].size, p.dim[2].size);
}

// The range of i within [0, count) for which 0 <= first + i * step < size.
struct IndexRange {
  int64_t begin, end;
};

VISOPS_FN IndexRange indices_within(int64_t first, int64_t step, int64_t size, int64_t count) {
  IndexRange range;
  range.begin = first >= 0 ? 0 : (-first + step - 1) / step;
  range.end = first >= size ? 0 : (size - 1 - first) / step + 1;
  if (range.end > count) range.end = count;
  if (range.begin > range.end) range.begin = range.end;
  return range;
}

// NOTE [ Sums of col2im ] for single elements: the type that each is summed in, and the addition.

// The type that elements stored as T are summed in.
template <class T>
struct Sum {
  using type = T;
};
template <>
struct Sum<Half> {
  using type = float;
};
template <>
struct Sum<BFloat16> {
  using type = float;
};
template <class T>
using SumOf = typename Sum<T>::type;

VISOPS_HOT_FN void add(Truth* sum, const Truth* value) { sum->value |= value->value; }
VISOPS_HOT_FN void add(float* sum, const Half* value) { *sum += load_element(value); }
VISOPS_HOT_FN void add(float* sum, const BFloat16* value) { *sum += load_element(value); }
template <class T>
VISOPS_HOT_FN void add(T* sum, const T* value) {
  *sum = static_cast<T>(*sum + *value);
}

VISOPS_HOT_FN void store_sum(Half* to, float sum) { store_element(to, sum); }
VISOPS_HOT_FN void store_sum(BFloat16* to, float sum) { store_element(to, sum); }
template <class T>
VISOPS_HOT_FN void store_sum(T* to, T sum) {
  *to = sum;
}

// An element of kParts adjacent numbers.
template <class T, int kParts>
struct SumElement {
  using Stored = T;
  static constexpr int kNumbers = kParts;
};

// Host only: calls with the SumElement of `kind`.
template <class Call>
static void with_sum_element(Arithmetic kind, Call call) {
  switch (kind) {
    case Arithmetic::kBool: return call(SumElement<Truth, 1>{});
    case Arithmetic::kInt8: return call(SumElement<uint8_t, 1>{});
    case Arithmetic::kInt16: return call(SumElement<uint16_t, 1>{});
    case Arithmetic::kInt32: return call(SumElement<uint32_t, 1>{});
    case Arithmetic::kInt64: return call(SumElement<uint64_t, 1>{});
    case Arithmetic::kFloat16: return call(SumElement<Half, 1>{});
    case Arithmetic::kBFloat16: return call(SumElement<BFloat16, 1>{});
    case Arithmetic::kFloat32: return call(SumElement<float, 1>{});
    case Arithmetic::kFloat64: return call(SumElement<double, 1>{});
    case Arithmetic::kComplex32: return call(SumElement<Half, 2>{});
    case Arithmetic::kComplex64: return call(SumElement<float, 2>{});
    case Arithmetic::kComplex128: return call(SumElement<double, 2>{});
  }
}

}  // namespace visops
