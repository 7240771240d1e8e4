#include "core/convolution/convolve2d.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/dispatch/threads.h"

namespace visops {

KernelStub<ConvolveParams> convolve2d_stub{"convolve2d"};

Padding parse_boundary(const char* op, const std::string& name) {
  if (name == "fill") return Padding::kConstant;
  if (name == "wrap") return Padding::kCircular;
  if (name == "symm") return Padding::kSymmetric;
  fail(op, "boundary is '", name, "', must be 'fill', 'wrap' or 'symm'");
}

void check_extent(const char* op, const int64_t (&start)[2], const char* size_name,
                  const int64_t (&size)[2]) {
  // The sum of a few of these fits into 64 bits.
  constexpr int64_t kFarthest = int64_t{1} << 60;
  for (const int64_t s : start) {
    require(s >= -kFarthest && s <= kFarthest, op, "start is ", shape_text(start),
            ", must be between -2^60 and 2^60");
  }
  for (const int64_t s : size) {
    require(s >= 0 && s <= kFarthest, op, size_name, " is ", shape_text(size),
            ", must be between 0 and 2^60");
  }
}

void check_planes(const char* op, const std::string& input_shape, const ConvolvePlane& input,
                  const std::string& kernel_shape, const ConvolvePlane& kernel, Padding boundary) {
  require(kernel.height > 0 && kernel.width > 0, op, "kernel has shape ", kernel_shape,
          ", must have at least one row and one column");
  require(boundary == Padding::kConstant || (input.height > 0 && input.width > 0), op,
          "input has shape ", input_shape,
          ", must have at least one row and one column to be repeated");
}

void check_kernel_size(const char* op, const ConvolveParams& p) {
  const ConvolvePlane& k = p.kernel_plane;
  constexpr int64_t kMost = int64_t{1} << 56;
  const int64_t columns = std::min(p.output_width, kConvolveColumns);
  require(saturating_product(k.height, k.width) < kMost &&
              saturating_product(k.height, k.width + columns) < kMost,
          op, "kernel has ", k.height, " x ", k.width, " elements, which is too many");
}

KernelStub<ConvolveFoldParams> convolve2d_fold_stub{"convolve2d_fold"};
KernelStub<ConvolveTapsParams> convolve2d_taps_stub{"convolve2d_taps"};

int64_t sum_size(Arithmetic kind) { return std::max<int64_t>(4, element_size(kind)); }

void set_chunks(const char* op, ConvolveTapsParams* p) {
  constexpr int64_t kMost = int64_t{1} << 56;
  const int64_t taps = saturating_product(p->kernel_height, p->kernel_width);
  require(taps < kMost / kSumLanes, op, "kernel_size is ", p->kernel_height, " x ", p->kernel_width,
          ", which is too large");
  p->chunk_rows = (p->grad_plane.height + kChunkRows - 1) / kChunkRows;
  p->chunk_columns = (p->grad_plane.width + kChunkColumns - 1) / kChunkColumns;
  const int64_t chunks =
      saturating_product(p->batch.count, saturating_product(p->chunk_rows, p->chunk_columns));
  p->partial_bytes = saturating_product(saturating_product(chunks, taps), sum_size(p->kind));
}

namespace {

constexpr int64_t kPartsPerThread = 4;
constexpr int64_t kLine = 64;

int64_t whole_lines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

int64_t bytes_of_term(Arithmetic kind) { return term_size(kind) * (is_complex(kind) ? 2 : 1); }

// With more columns, loops over rows are as fast. Rows of the transposed input that wide kernels
// meet would take much memory.
bool is_narrow(const ConvolveParams& p) {
  const int64_t columns = term_size(p.kind) < 4 ? 16 : 8;
  return p.output_width <= columns && p.output_height > 16 && p.kernel_plane.width <= 64;
}

// Sizes are below the limits of check_kernel_size(). Tasks sum at most `most_columns` at a time.
ConvolveLayout layout_of(const ConvolveParams& p, int64_t most_columns) {
  const ConvolvePlane& k = p.kernel_plane;
  const bool pairs = is_complex(p.kind);
  const int64_t term = bytes_of_term(p.kind), weight = pairs ? kComplexWeight : term;
  const int64_t columns = std::min(p.output_width, most_columns);
  ConvolveLayout layout = {};
  layout.slots = k.height + kConvolveRows - 1;
  // A slot may hold two pieces of a row: left and right of what needs no copy.
  const int64_t row = whole_lines((columns + 2 * k.width) * term + 2 * kConvolveSlack);
  layout.slot_terms = row / term;
  layout.row_pointers = whole_lines(k.height * k.width * weight);
  layout.fill_row =
      layout.row_pointers + whole_lines(layout.slots * static_cast<int64_t>(sizeof(void*)));
  layout.sums = layout.fill_row + row;
  layout.ring = layout.sums + kConvolveRows * row;
  layout.bytes = layout.ring + layout.slots * row;
  return layout;
}

}  // namespace

ConvolveParams transposed(const ConvolveParams& p) {
  const auto exchange = [](ConvolvePlane& plane) {
    std::swap(plane.height, plane.width);
    std::swap(plane.row_stride, plane.column_stride);
  };
  ConvolveParams found = p;
  exchange(found.input_plane);
  exchange(found.kernel_plane);
  std::swap(found.start_y, found.start_x);
  std::swap(found.output_height, found.output_width);
  return found;
}

ConvolvePlan plan_convolve2d(const ConvolveParams& p, int64_t threads) {
  constexpr int64_t kTapsPerElement = 16;
  ConvolvePlan plan = {is_narrow(p), 1, {}, 0};
  int64_t rows = kConvolveRows;  // of the output, that a task takes at a time
  if (plan.transposes) {
    rows = kTransposedColumns;
    plan.layout = layout_of(transposed(p), kTransposedColumns);
  } else {
    plan.layout = layout_of(p, kConvolveColumns);
  }
  const int64_t pieces = (p.output_height + rows - 1) / rows;
  const int64_t elements = saturating_product(rows, p.output_width);
  const int64_t taps = p.kernel_plane.height * p.kernel_plane.width;
  const int64_t cost = saturating_product(elements, 1 + taps / kTapsPerElement);
  const int64_t total = saturating_product(p.batch.count, pieces);
  if (threads > 1) {
    const int64_t worth_it = saturating_product(total, cost) / kGrain;
    plan.parts = std::clamp<int64_t>(std::min(threads * kPartsPerThread, worth_it), 1, total);
  }
  plan.scratch_bytes = saturating_product(plan.parts, plan.layout.bytes);
  return plan;
}

ConvolveTapsPlan plan_convolve2d_taps(const ConvolveTapsParams& p, int64_t threads) {
  constexpr int64_t kTapsPerElement = 8;
  const int64_t chunks = p.batch.count * p.chunk_rows * p.chunk_columns;
  const int64_t taps = p.kernel_height * p.kernel_width;
  const int64_t elements = saturating_product(
      p.batch.count, saturating_product(p.grad_plane.height, p.grad_plane.width));
  const int64_t worth_it = saturating_product(elements, 1 + taps / kTapsPerElement) / kGrain;
  const int64_t sum = sum_size(p.kind);
  const int64_t columns = std::min(p.grad_plane.width, kChunkColumns);
  ConvolveTapsPlan plan = {};
  plan.parts = std::clamp<int64_t>(std::min(threads * kPartsPerThread, worth_it), 1, chunks);
  plan.grad_bytes = whole_lines(kChunkRows * columns * sum);
  plan.row_bytes = whole_lines((columns + p.kernel_width) * sum + 2 * kConvolveSlack);
  plan.part_bytes = plan.grad_bytes + plan.row_bytes + whole_lines(taps * kSumLanes * sum);
  plan.scratch_bytes = saturating_product(plan.parts, plan.part_bytes);
  return plan;
}

}  // namespace visops
