// Running a gradient that CUDA computes from samples sorted by cell.
#pragma once

#include "torch/operators.h"

namespace visops {

// Lets the kernel write the cells of `count` samples, and torch sort them, stably. The kernel then
// runs with their order, as long as the result is held.
template <class Params>
Sorted sort_cells(const KernelStub<Params>& stub, const char* op, Params* p, int64_t count,
                  const Tensor& on) {
  const Tensor cells = empty_tensor(op, "scratch", on, {count}, DType::kInt64);
  p->cells = data_of<int64_t>(cells);
  run(stub, op, *p, on);
  const Sorted sorted = sort_last(cells, false);
  p->sorted_cells = data_of<int64_t>(sorted.values);
  p->order = data_of<int64_t>(sorted.indices);
  return sorted;
}

// On the CPU the kernel runs once, on CUDA once more after cells are sorted.
template <class Params>
void run_in_cells(const KernelStub<Params>& stub, const char* op, Params* p, int64_t count,
                  const Tensor& on) {
  if (!runs_cuda_kernels(on)) return run(stub, op, *p, on);
  const Sorted sorted = sort_cells(stub, op, p, count, on);
  run(stub, op, *p, on);
}

}  // namespace visops
