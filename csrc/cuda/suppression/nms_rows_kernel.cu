// The kept candidates as rows of a result, on CUDA.
//
// NOTE [ Rows on CUDA ]
// A block has a chunk. The first launch counts its kept candidates, which tells the host how many
// rows there are. In the second one a block adds up the counts of chunks before its own, and writes
// its rows behind theirs. Assumes that the front chose chunks such that there are few of them.

#include "core/suppression/nms.h"

#include "core/numbers/arithmetic.h"
#include "cuda/suppression/kept_ranks.h"

namespace visops {
namespace {

__device__ inline void write_row(const NmsRowsParams& p, int64_t i, int64_t rank) {
  const int64_t given = p.candidates[i];
  const int64_t group = p.within_images ? i / p.per_image : given / p.per_image;
  const int64_t box = p.within_images ? given : given - group * p.per_image;
  const int64_t image = p.names_class ? group / p.classes : group;
  int64_t* row = p.rows + rank * ((p.names_image ? 1 : 0) + (p.names_class ? 1 : 0) + 1);
  if (p.names_image) *row++ = image;
  if (p.names_class) *row++ = group - image * p.classes;
  *row = box;
}

__global__ void __launch_bounds__(kThreads)
    nms_rows(const __grid_constant__ NmsRowsParams p, const int64_t chunks) {
  for (int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const int64_t begin = chunk * p.chunk;
    const int64_t end = begin + p.chunk < p.count ? begin + p.chunk : p.count;
    const auto is_kept = [&](int64_t i) { return p.kept[p.slot != nullptr ? p.slot[i] : i] != 0; };
    if (p.rows == nullptr) {
      const int64_t kept = each_kept(begin, end, 0, p.count, is_kept, [](int64_t, int64_t) {});
      if (threadIdx.x == 0) p.counts[chunk] = kept;
      continue;
    }
    int64_t before = 0;  // each warp adds them up
    for (int64_t c = threadIdx.x % kWarp; c < chunk; c += kWarp) before += p.counts[c];
    for (int half = kWarp / 2; half > 0; half /= 2) {
      before += __shfl_xor_sync(kWholeWarp, before, half);
    }
    each_kept(begin, end, before, p.count, is_kept,
              [&](int64_t i, int64_t rank) { write_row(p, i, rank); });
  }
}

void nms_rows_cuda(const NmsRowsParams& p, Workspace& workspace) {
  const int64_t chunks = parts_of(p.count, p.chunk);
  launch(nms_rows, grid_for(chunks), dim3(kThreads), 0, workspace.stream(), p, chunks);
}

const bool registered = nms_rows_stub.set(kCudaSlot, nms_rows_cuda);

}  // namespace
}  // namespace visops
