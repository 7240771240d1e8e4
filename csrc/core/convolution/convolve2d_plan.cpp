#include "core/convolution/convolve2d_plan.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/dispatch/grain.h"

namespace visops {
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
