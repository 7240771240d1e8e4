#include "core/convolution/convolve2d_plan.h"

#include <algorithm>

#include "core/check.h"
#include "core/grain.h"

namespace visops {
namespace {

constexpr int64_t kPartsPerThread = 4;

int64_t whole_lines(int64_t bytes) {
  constexpr int64_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

// Sizes are below the limits of check_kernel_size().
ConvolveLayout layout_of(const ConvolveParams& p) {
  const ConvolvePlane& k = p.kernel_plane;
  const bool pairs = is_complex(p.kind);
  const int64_t term = term_size(p.kind) * (pairs ? 2 : 1), weight = pairs ? kComplexWeight : term;
  const int64_t columns = std::min(p.output_width, kConvolveColumns);
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

ConvolvePlan plan_convolve2d(const ConvolveParams& p, int64_t threads) {
  constexpr int64_t kTapsPerElement = 16;
  const int64_t bands = (p.output_height + kConvolveRows - 1) / kConvolveRows;
  const int64_t elements = saturating_product(kConvolveRows, p.output_width);
  const int64_t taps = p.kernel_plane.height * p.kernel_plane.width;
  const int64_t cost = saturating_product(elements, 1 + taps / kTapsPerElement);
  const int64_t total = saturating_product(p.batch.count, bands);
  ConvolvePlan plan = {1, layout_of(p), 0};
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
