// NOTE [ Matching costs on CUDA ]
// A thread has a pair of a query and a target, in the order of the result, so neighbours read the
// same query and adjacent targets and write adjacent costs. "softmax" needs the greatest logit of a
// query and its sum first: a warp takes a query, a lane every 32nd logit. Labels are not checked on
// the host, which would have to wait for them: one that is no class makes its costs NaN.
//
// Rounding: NOTE [ Matching costs ] (core/deformable/match.h), without contraction (-fmad=false),
// so the bits are the CPU's.
#include "core/deformable/match.h"
#include "cuda/deformable/elements.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;

// Computes each query's greatest logit, and its sum of exp(logit - greatest).
template <class Acc>
__global__ void __launch_bounds__(kThreads)
    match_rows(const __grid_constant__ MatchParams p, Acc* const rows, const int64_t count) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t step = int64_t{gridDim.x} * kWarps;
  int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  for (; row < count; row += step) {
    const Acc* logits = static_cast<const Acc*>(p.logits) + row * p.classes;
    Acc greatest = logits[0];
    for (int64_t k = lane; k < p.classes; k += kWarpLanes) {
      greatest = greatest < logits[k] ? logits[k] : greatest;
    }
    for (int half = kWarpLanes / 2; half > 0; half /= 2) {
      const Acc other = __shfl_down_sync(kAllLanes, greatest, half);
      greatest = greatest < other ? other : greatest;
    }
    greatest = __shfl_sync(kAllLanes, greatest, 0);
    Acc sum = 0;
    for (int64_t k = lane; k < p.classes; k += kWarpLanes) {
      sum += exp_below_zero(logits[k] - greatest);
    }
    sum = sum_lanes(sum);
    if (lane == 0) {
      rows[2 * row] = greatest;
      rows[2 * row + 1] = sum;
    }
  }
}

// The image that has pair i.
__device__ inline int64_t image_of(const MatchParams& p, int64_t i) {
  int64_t first = 0, last = p.images - 1;
  while (first < last) {
    const int64_t middle = (first + last) / 2;
    if (i < p.begin[middle + 1] * p.queries) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

template <class Acc>
__device__ MatchBox<Acc> load_match_box(const void* boxes, int64_t i) {
  const Acc* at = static_cast<const Acc*>(boxes) + 4 * i;
  return match_box(at[0], at[1], at[2], at[3]);
}

template <class Acc, MatchKind kind, bool is_square>
__global__ void __launch_bounds__(kThreads)
    match_pairs(const __grid_constant__ MatchParams p, const Acc* const rows, const int64_t count) {
  const MatchNumbers<Acc>& numbers = numbers_of(p, static_cast<Acc>(0));
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t image = image_of(p, i), begin = p.begin[image];
    const int64_t targets = p.begin[image + 1] - begin, pair = i - begin * p.queries;
    const int64_t query = pair / targets, target = begin + (pair - query * targets);
    const int64_t row = image * p.queries + query, label = p.labels[target];
    const bool is_class = label >= 0 && label < p.classes;
    const Acc x = static_cast<const Acc*>(p.logits)[row * p.classes + (is_class ? label : 0)];
    Acc of_class;
    if constexpr (kind == MatchKind::kFocal) {
      of_class = focal_cost<is_square>(x, numbers);
    } else {
      of_class = static_cast<Acc>(0) - exp_below_zero(x - rows[2 * row]) / rows[2 * row + 1];
    }
    const Acc cost = pair_cost(load_match_box<Acc>(p.boxes, row),
                               load_match_box<Acc>(p.target_boxes, target), of_class, numbers);
    const Acc zero = static_cast<Acc>(0);
    static_cast<Acc*>(p.costs)[i] = is_class ? cost : zero / zero;
  }
}

template <class Acc, MatchKind kind, bool is_square>
void match(const MatchParams& p, Workspace& workspace) {
  const int64_t queries = p.images * p.queries, pairs = p.begin[p.images] * p.queries;
  Acc* rows = nullptr;
  if (kind == MatchKind::kSoftmax) {
    rows = allocate<Acc>(workspace, 2 * queries);
    launch(match_rows<Acc>, grid_for(parts_of(queries, kWarps)), dim3(kThreads), 0,
           workspace.stream(), p, rows, queries);
  }
  launch(match_pairs<Acc, kind, is_square>, grid_for(parts_of(pairs, kThreads)), dim3(kThreads), 0,
         workspace.stream(), p, rows, pairs);
}

void match_cost_cuda(const MatchParams& p, Workspace& workspace) {
  with_match_form(p, [&](auto acc, auto kind, auto is_square) {
    match<decltype(acc), kind.value, is_square.value>(p, workspace);
  });
}

const bool registered = match_cost_stub.set(kCudaSlot, match_cost_cuda);

}  // namespace
}  // namespace visops
