#include "core/convolution/convolve2d_gradient.h"

#include <algorithm>

#include "core/check.h"

namespace visops {

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

}  // namespace visops
