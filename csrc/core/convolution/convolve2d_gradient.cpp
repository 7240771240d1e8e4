#include "core/convolution/convolve2d_gradient.h"

#include <algorithm>

#include "core/check.h"

namespace visops {

KernelStub<ConvolveFoldParams> convolve2d_fold_stub{"convolve2d_fold"};
KernelStub<ConvolveTapsParams> convolve2d_taps_stub{"convolve2d_taps"};
KernelStub<ConvolveTapsParams> convolve2d_tap_sums_stub{"convolve2d_tap_sums"};

int64_t sum_size(Arithmetic kind) { return std::max<int64_t>(4, element_size(kind)); }

void set_taps_layout(const char* op, ConvolveTapsParams* p) {
  constexpr int64_t kLine = 64, kMost = int64_t{1} << 56;
  const auto lines = [](int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; };
  const int64_t taps = saturating_product(p->kernel_height, p->kernel_width);
  require(taps < kMost / kTapLanes, op, "kernel_size is ", p->kernel_height, " x ", p->kernel_width,
          ", which is too large");
  p->chunk_rows = (p->grad_plane.height + kChunkRows - 1) / kChunkRows;
  p->chunk_columns = (p->grad_plane.width + kChunkColumns - 1) / kChunkColumns;
  const int64_t sum = sum_size(p->kind);
  const int64_t columns = std::min(p->grad_plane.width, kChunkColumns);
  p->grad_bytes = lines(kChunkRows * columns * sum);
  p->row_bytes = lines((columns + p->kernel_width) * sum + 2 * kConvolveSlack);
  p->part_bytes = p->grad_bytes + p->row_bytes + lines(taps * kTapLanes * sum);
}

}  // namespace visops
