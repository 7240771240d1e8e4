// Matrix suppression on CUDA.
//
// NOTE [ Matrix suppression on CUDA ]
// Strategy: a warp has an object, twice. First it finds the object's largest overlap with better
// ones of its group; then, when those of all objects are known, the object's largest loss. Overlaps
// are computed both times, so memory stays proportional to the number of objects. For boxes, a lane
// has every 32nd better one; for masks, the lanes share the words of one after another.
//
// Split: warps stride over positions of `order`. Both results are maxima: neither the split nor the
// order changes them.
//
// Rounding: NOTE [ Overlap ] and NOTE [ Matrix suppression ], without contraction (-fmad=false).
//
// Assumes what check_matrix_nms() and the front establish: indices are in range, equal numbers in
// `segment` are adjacent, and within a group objects that take no part come last. Boxes need not be
// finite.

#include "core/suppression/matrix_nms.h"

#include "core/suppression/scratch.h"
#include "cuda/suppression/segments.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr unsigned kWholeWarp = 0xffffffffu;

template <class Overlap, class Score>
struct MatrixScratch {
  int64_t* first;                     // [count] first position of the object's group
  Score* compensations;               // [count]
  Overlap *x1, *y1, *x2, *y2, *area;  // [count] each, of boxes only

  MatrixScratch(const MatrixNmsParams& p, Workspace& workspace) {
    const int64_t numbers = p.boxes == nullptr ? 0 : 5;
    const int64_t each = sizeof(int64_t) + sizeof(Score) + numbers * sizeof(Overlap);
    char* memory = allocate<char>(workspace, p.count * each);
    first = take_array<int64_t>(&memory, p.count);
    compensations = take_array<Score>(&memory, p.count);
    x1 = take_array<Overlap>(&memory, p.count * numbers);
    y1 = x1 + p.count;
    x2 = y1 + p.count;
    y2 = x2 + p.count;
    area = y2 + p.count;
  }

  __device__ Box<Overlap> box(int64_t i) const { return {x1[i], y1[i], x2[i], y2[i], area[i]}; }
};

template <class Overlap, class Score>
__global__ void __launch_bounds__(kThreads)
    matrix_prepare(const __grid_constant__ MatrixNmsParams p,
                   const MatrixScratch<Overlap, Score> scratch) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < p.count;
       i += stride) {
    scratch.first[i] = first_of_segment(p.segment, i);
    if (p.boxes == nullptr) continue;
    const int64_t offset = p.order[i] * p.box_stride;
    Box<Overlap> box = load_box<Overlap>(p.boxes, p.dtype, offset, p.coordinate_stride);
    if (is_inert(box)) box = {0, 0, 0, 0, 0};  // overlaps nothing
    scratch.x1[i] = box.x1;
    scratch.y1[i] = box.y1;
    scratch.x2[i] = box.x2;
    scratch.y2[i] = box.y2;
    scratch.area[i] = box.area;
  }
}

template <class T>
__device__ T largest_of_warp(T value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(kWholeWarp, value, step);
    value = other > value ? other : value;
  }
  return value;
}

__device__ inline int64_t common_bits(const MatrixNmsParams& p, int64_t a, int64_t b, int lane) {
  const MaskExtent &one = p.extent[a], &other = p.extent[b];
  const int64_t begin = one.begin > other.begin ? one.begin : other.begin;
  const int64_t end = one.end < other.end ? one.end : other.end;
  int64_t count = 0;
  for (int64_t w = begin + lane; w < end; w += kWarp) {
    count += __popcll(p.bits[a * p.words + w] & p.bits[b * p.words + w]);
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    count += __shfl_xor_sync(kWholeWarp, count, step);
  }
  return count;
}

// The largest value(better, overlap) over the better objects that overlap i, for all lanes; `none`
// if there are none.
template <class Overlap, class Score, class T, class Value>
__device__ T largest_of_better(const MatrixNmsParams& p,
                               const MatrixScratch<Overlap, Score>& scratch, int64_t i, T none,
                               const Value& value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  T largest = none;
  const auto meet = [&](int64_t better, Overlap overlap) {
    if (!(overlap > static_cast<Overlap>(0))) return;
    const T found = value(better, overlap);
    largest = found > largest ? found : largest;
  };
  if (p.boxes == nullptr) {
    for (int64_t b = scratch.first[i]; b < i; ++b) {
      meet(b,
           static_cast<Overlap>(overlap_of(p.extent[i], p.extent[b], common_bits(p, i, b, lane))));
    }
    return largest;
  }
  const Box<Overlap> box = scratch.box(i);
  for (int64_t b = scratch.first[i] + lane; b < i; b += kWarp) {
    meet(b, overlap_of(scratch.box(b), box));
  }
  return largest_of_warp(largest);
}

// body(i, score) for each position of this warp.
template <class Score, class Body>
__device__ void for_each_object(const MatrixNmsParams& p, const Body& body) {
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; i < p.count;
       i += warps) {
    body(i, score_at<Score>(p, i));
  }
}

template <class Overlap, class Score>
__global__ void __launch_bounds__(kThreads)
    matrix_compensate(const __grid_constant__ MatrixNmsParams p,
                      const MatrixScratch<Overlap, Score> scratch) {
  for_each_object<Score>(p, [&](int64_t i, Score score) {
    if (!(score >= static_cast<Score>(0))) return;
    const auto most = largest_of_better(p, scratch, i, static_cast<Overlap>(0),
                                        [](int64_t, Overlap overlap) { return overlap; });
    if (threadIdx.x % kWarp == 0) {
      scratch.compensations[i] = compensation(p.decay, static_cast<Score>(most));
    }
  });
}

template <class Overlap, class Score>
__global__ void __launch_bounds__(kThreads)
    matrix_decay(const __grid_constant__ MatrixNmsParams p,
                 const MatrixScratch<Overlap, Score> scratch) {
  for_each_object<Score>(p, [&](int64_t i, Score score) {
    Score changed = static_cast<Score>(-1);
    if (score >= static_cast<Score>(0)) {
      const Score loss = largest_of_better(
          p, scratch, i, no_loss<Score>(p.decay), [&](int64_t better, Overlap overlap) {
            return loss_of(p.decay, static_cast<Score>(overlap), scratch.compensations[better]);
          });
      changed = decayed(p, score, loss);
    }
    if (threadIdx.x % kWarp == 0) store_score(p, i, changed);
  });
}

template <class Overlap, class Score>
void matrix_nms_as(const MatrixNmsParams& p, Workspace& workspace) {
  const MatrixScratch<Overlap, Score> scratch(p, workspace);
  void* stream = workspace.stream();
  const dim3 threads(kThreads);
  const dim3 warps = grid_for((p.count + kWarps - 1) / kWarps);
  launch(matrix_prepare<Overlap, Score>, grid_for((p.count + kThreads - 1) / kThreads), threads, 0,
         stream, p, scratch);
  launch(matrix_compensate<Overlap, Score>, warps, threads, 0, stream, p, scratch);
  launch(matrix_decay<Overlap, Score>, warps, threads, 0, stream, p, scratch);
}

void matrix_nms_cuda(const MatrixNmsParams& p, Workspace& workspace) {
  if (overlaps_in_double(p)) {
    matrix_nms_as<double, double>(p, workspace);
  } else if (scores_in_double(p)) {
    matrix_nms_as<float, double>(p, workspace);
  } else {
    matrix_nms_as<float, float>(p, workspace);
  }
}

const bool registered = matrix_nms_stub.set(kCudaSlot, matrix_nms_cuda);

}  // namespace
}  // namespace visops
