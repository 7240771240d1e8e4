#include "core/convolution/im2col.h"

#include <algorithm>

#include "core/check.h"

namespace visops {

KernelStub<Im2colParams> im2col_stub("im2col");
KernelStub<Im2colParams> col2im_stub("col2im");

bool parse_column_layout(const char* op, const std::string& layout) {
  if (layout == "unfold") return false;
  if (layout == "patches") return true;
  fail(op, "layout is '", layout, "', must be unfold or patches");
}

namespace {

// With these limits on arguments and padded sizes, no offset overflows.
constexpr int64_t kMostNumber = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostPadded = int64_t{1} << 62;

void check_numbers(const char* op, const char* name, const std::vector<int64_t>& values,
                   size_t count, int64_t least) {
  require(values.size() == count, op, name, " is ", shape_text(values), ", must be ", count,
          " integers");
  const bool is_allowed =
      std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= least; });
  require(is_allowed, op, name, " is ", shape_text(values), ", must be ",
          least == 0 ? ">= 0" : "> 0");
  for (size_t i = 0; i < count; ++i) {
    require(values[i] <= kMostNumber, op, name, "[", i, "] is ", values[i], ", must be at most ",
            kMostNumber);
  }
}

}  // namespace

void set_windows(const char* op, const char* name, const std::vector<int64_t>& sizes,
                 const std::vector<int64_t>& kernel_size, const std::vector<int64_t>& stride,
                 const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation,
                 Im2colParams* p) {
  const size_t dims = kernel_size.size();
  check_numbers(op, "kernel_size", kernel_size, dims, 1);
  check_numbers(op, "stride", stride, dims, 1);
  check_numbers(op, "padding", padding, 2 * dims, 0);
  check_numbers(op, "dilation", dilation, dims, 1);
  std::vector<int64_t> covered(dims), padded(dims);
  for (size_t i = 0; i < dims; ++i) {
    const int64_t sides = padding[i] + padding[dims + i];
    require(sizes[i] <= kMostPadded - sides, op, name, " has size ", sizes[i], " and ", sides,
            " elements of padding in one dimension, must be at most ", kMostPadded, " in all");
    covered[i] = dilation[i] * (kernel_size[i] - 1) + 1;
    padded[i] = sizes[i] + sides;
  }
  for (size_t i = 0; i < dims; ++i) {
    require(covered[i] <= padded[i], op, "kernel_size is ", shape_text(kernel_size),
            " with dilation ", shape_text(dilation), ", which covers ", shape_text(covered),
            ", must be within the padded ", name, ", ", shape_text(padded));
  }
  p->kernel_elements = p->positions = 1;
  const size_t missing = kWindowDims - dims;
  for (size_t i = 0; i < kWindowDims; ++i) {
    WindowDim& dim = p->dim[i];
    dim = {1, 1, 1, 1, 1, 0};
    if (i >= missing) {
      const size_t d = i - missing;
      dim = {sizes[d],       (padded[d] - covered[d]) / stride[d] + 1,
             kernel_size[d], stride[d],
             dilation[d],    padding[d]};
    }
    p->kernel_elements = saturating_product(p->kernel_elements, dim.kernel);
    p->positions = saturating_product(p->positions, dim.positions);
  }
}

namespace {

// Sets how many places of a row, and rows of places, are staged together; false where staging
// doesn't pay.
bool set_staged_tasks(Im2colParams* p) {
  // Copying a row this long costs no more than its bytes.
  constexpr int64_t kLongRow = 1024, kLongRun = 128;
  const WindowDim& row = p->dim[2];
  const WindowDim& last = p->dim[3];
  const int64_t bytes = p->element_size;
  // Between windows that don't touch, most of what is staged would go unused.
  if (last.stride > covered_by(last, 1) || row.stride > covered_by(row, 1)) return false;
  if (std::max(covered_by(last, 1), covered_by(row, 1)) > kStageBytes) return false;
  int64_t planes = 1;
  if (p->is_patches) {
    if (last.dilation != 1 || last.kernel * bytes > kLongRun) return false;
    planes = saturating_product(p->dim[0].kernel, p->dim[1].kernel);
  } else if (last.stride == 1 && last.positions * bytes >= kLongRow) {
    return false;
  }
  // As few segments as possible: writing whole rows of the result is worth staging some rows twice.
  // Each phase of the stride may hold one element more than it needs.
  const int64_t least = saturating_product(covered_by(row, 1) * bytes, planes);
  const int64_t left = kStageBytes / least - last.stride - covered_by(last, 1);
  if (left < 0) return false;
  const int64_t most = left / last.stride + 1;
  const int64_t segments = (last.positions + most - 1) / most;
  p->segment_positions = (last.positions + segments - 1) / segments;
  const int64_t width = covered_by(last, p->segment_positions) + last.stride;
  const int64_t rows = kStageBytes / (width * bytes * planes);
  p->band_rows = std::min(row.positions, (rows - covered_by(row, 1)) / row.stride + 1);
  return true;
}

}  // namespace

void set_im2col_tasks(Im2colParams* p) {
  // Roughly what a task reads; unfold reads it once for each element of the kernel. Half of the
  // smallest second-level cache, so that memory is read once.
  constexpr int64_t kBandBytes = int64_t{1} << 17, kSegmentBytes = int64_t{1} << 15;
  const int64_t rows = p->dim[2].positions, width = p->dim[3].positions;
  p->is_staged = set_staged_tasks(p);
  if (!p->is_staged) {
    p->segment_positions = std::min(width, kSegmentBytes / p->element_size);
    const int64_t row_bytes = p->segment_positions * p->element_size;
    p->band_rows = std::min(rows, std::max<int64_t>(1, kBandBytes / row_bytes));
  }
  p->segments = (width + p->segment_positions - 1) / p->segment_positions;
  p->bands = (rows + p->band_rows - 1) / p->band_rows;
}

}  // namespace visops
