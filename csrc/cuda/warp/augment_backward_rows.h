// How a block walks a few output rows to pull their gradient back, and adds up what its threads
// find.
#pragma once

#include "core/warp/augment_gradient.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_color.h"
#include "cuda/warp/augment_positions.h"
#include "cuda/warp/augment_values.h"
#include "cuda/warp/bands.h"

namespace visops {
namespace {

// Rows of a block, with kTreeLeaves threads each. A block's shared memory is in proportion.
template <class Acc>
constexpr int kBackwardRows = std::is_same<Acc, double>::value ? 2 : 4;
template <class Acc>
constexpr int kBackwardThreads = kBackwardRows<Acc> * static_cast<int>(kTreeLeaves);

struct BackwardThread {
  int row, lane;
  __device__ BackwardThread()
      : row(static_cast<int>(threadIdx.x) / static_cast<int>(kTreeLeaves)),
        lane(static_cast<int>(threadIdx.x) % static_cast<int>(kTreeLeaves)) {}
};

// Blocks of a sample.
template <class Acc>
VISOPS_FN int64_t bands_of(const AugmentParams& p) {
  return parts_of(p.output_height, kBackwardRows<Acc>);
}

template <class Acc>
struct BackwardBlock {
  AugmentSample sample;  // as it is differentiated
  bool copies;           // the forward copied elements instead
  ColorPlan<Acc> plan;
  ChannelValues<Acc> values;
};

// Called by all threads of the block, and synchronizes them.
template <class Acc>
__device__ inline void prepare_backward(const AugmentParams& p, int64_t sample,
                                        BackwardBlock<Acc>* block) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    const AugmentSample& given = p.samples[sample];
    block->sample = slope_sample(p, given);
    block->copies = given.mode != p.mode;
  } else if (thread >= kWarp) {
    constexpr int kThreads = kBackwardThreads<Acc> - kWarp;
    share_values(p, thread - kWarp, kThreads, &block->values);
    share_color_plan(p, sample, thread - kWarp, kThreads, &block->plan);
  }
  __syncthreads();
}

// What a thread knows of its pixel from one stage of the work to the next. Volatile: compilers
// would keep it in registers, and every stage wants them all.
template <class Acc>
struct ThreadPixels {
  volatile int32_t column[kBackwardThreads<Acc>], row[kBackwardThreads<Acc>];  // of the output
  volatile Acc x[kBackwardThreads<Acc>], y[kBackwardThreads<Acc>];             // its LanePoint
  volatile Acc out[kBackwardThreads<Acc>];  // the part that is fill
  volatile Acc gx[kBackwardThreads<Acc>], gy[kBackwardThreads<Acc>], fills[kBackwardThreads<Acc>];
  const PlacedSegment<Acc>* volatile segments[kBackwardThreads<Acc>];  // of its row
};

// A sum of every thread. In shared memory: registers are for sampling and colour.
template <class Acc>
using ThreadSum = double[kBackwardThreads<Acc>];

// use() for this thread's pixels of a band, which `pixels` places, after its `sums` sums are set to
// 0. Called by all threads of the block, and synchronizes them, at last when all are done.
template <class Acc, class Use>
__device__ void for_band_pixels(const AugmentParams& p, const Band& band,
                                const PlacedSegment<Acc>* segments, BackwardBlock<Acc>* block,
                                ThreadPixels<Acc>* pixels, int sums, ThreadSum<Acc>* sum,
                                const Use& use) {
  const BackwardThread thread;
  for (int k = 0; k < sums; ++k) sum[k][threadIdx.x] = 0.0;
  prepare_backward(p, band.sample, block);
  const int32_t y = band.y + thread.row;
  if (y < p.output_height) {
    pixels->row[threadIdx.x] = y;
    pixels->segments[threadIdx.x] = segments + segment_at(p, band.sample, y, 0);
    for (pixels->column[threadIdx.x] = thread.lane; pixels->column[threadIdx.x] < p.output_width;
         pixels->column[threadIdx.x] += static_cast<int32_t>(kTreeLeaves)) {
      use();
    }
  }
  __syncthreads();  // all sums are there
}

// use(row, k, total): halves the 64 lanes of each row's sum k to one. Eight threads take a sum,
// each every eighth lane, and the first of them gets it. Called by all threads of the block, after
// they have met.
template <class Acc, class Use>
__device__ void sum_rows(int count, const ThreadSum<Acc>* sum, const Use& use) {
  constexpr int kRows = kBackwardRows<Acc>, kLanes = static_cast<int>(kTreeLeaves);
  constexpr int kTogether = 8, kEach = kLanes / kTogether;
  const int thread = static_cast<int>(threadIdx.x), first = thread % kTogether;
  // `count` and kRows are even: the four sums of a warp are all there or all not.
  for (int i = thread / kTogether; i < count * kRows; i += kBackwardThreads<Acc> / kTogether) {
    const int row = i % kRows, k = i / kRows;
    double v[kEach];
    for (int j = 0; j < kEach; ++j) v[j] = sum[k][row * kLanes + first + j * kTogether];
    for (int w = kEach / 2; w >= 1; w /= 2) {
      for (int j = 0; j < w; ++j) v[j] += v[j + w];
    }
    for (int w = kTogether / 2; w >= 1; w /= 2) {
      v[0] += __shfl_down_sync(0xffffffffu, v[0], static_cast<unsigned>(w));
    }
    if (first == 0) use(row, k, v[0]);
  }
}

}  // namespace
}  // namespace visops
