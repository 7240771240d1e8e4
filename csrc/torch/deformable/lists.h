// Running a gradient that CUDA computes from lists of samples: NOTE [ Samples of a pixel ]
// (cuda/deformable/pixel_lists.h).
#pragma once

#include <vector>

#include "core/check.h"
#include "core/deformable/pixel_lists.h"
#include "torch/operators.h"

namespace visops {

// Cells of `planes` maps, at most the largest int64.
inline int64_t map_cells(int64_t planes, int64_t height, int64_t width) {
  return saturating_product(saturating_product(planes, height + 1), width + 1);
}

inline void check_lists(const char* op, int64_t samples, int64_t cells, const Tensor& on) {
  if (!runs_cuda_kernels(on)) return;
  require(samples <= kMostListed && cells < kMostListed, op, "has ", samples, " samples and ",
          cells, " places between pixels, must be at most ", kMostListed, " on CUDA");
}

// Lets the kernel make the lists of p, whose sums are of `dtype`. They are there as long as the
// result is held.
template <class Params>
std::vector<Tensor> make_lists(const KernelStub<Params>& stub, const char* op, Params* p,
                               int64_t samples, int64_t cells, DType dtype, const Tensor& on) {
  PixelLists& lists = p->lists;
  lists.samples = samples;
  lists.cells = cells;
  const Tensor cell_of = empty_tensor(op, "scratch", on, {samples}, DType::kInt32);
  lists.cell_of = data_of<int32_t>(cell_of);
  lists.step = ListStep::kCells;
  run(stub, op, *p, on);
  const Sorted sorted = sort_last(cell_of, false);
  const Tensor begins = empty_tensor(op, "scratch", on, {cells + 1}, DType::kInt32);
  const Tensor entries = empty_tensor(op, "scratch", on, {samples, 4, 2}, dtype);
  lists.sorted_cells = data_of<int32_t>(sorted.values);
  lists.order = data_of<int64_t>(sorted.indices);
  lists.begins = data_of<int32_t>(begins);
  lists.entries = entries.mutable_data_ptr();
  lists.step = ListStep::kLists;
  run(stub, op, *p, on);
  lists.step = ListStep::kSums;
  return {begins, entries};
}

// On CUDA after lists are made, which check_lists() has allowed.
template <class Params>
void run_with_lists(const KernelStub<Params>& stub, const char* op, Params* p, int64_t samples,
                    int64_t cells, DType dtype, const Tensor& on) {
  std::vector<Tensor> held;
  if (runs_cuda_kernels(on)) held = make_lists(stub, op, p, samples, cells, dtype, on);
  run(stub, op, *p, on);
}

}  // namespace visops
