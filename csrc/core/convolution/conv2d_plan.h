// How the CPU cuts a convolution into blocks that fit its caches and into work for its threads. It
// is in core because kernel files may not throw.
#pragma once

#include "core/convolution/conv2d.h"

namespace visops {

struct Conv2dPlan {
  int64_t workers;
  int64_t block_rows, block_columns;  // of outputs, in a block
  int64_t row_chunks;                 // tasks that share a block's strips of channels
  int64_t packed_bytes;               // of all packed weights, in whole cache lines
  int64_t worker_bytes;               // of scratch
  int64_t bytes;                      // of the packed weights and all workers' scratch
};

struct Conv2dWeightPlan {
  int64_t workers;
  int64_t block_rows;                   // of outputs, in a band
  int64_t in_block, out_block;          // channels of a task
  int64_t worker_bytes, scratch_bytes;  // of one worker, of all
};

// Both throw where even the smallest band is too large to index.
Conv2dPlan plan_conv2d(const Conv2dParams& p, int64_t threads);
Conv2dWeightPlan plan_conv2d_weight(const Conv2dWeightParams& p, int64_t threads);

}  // namespace visops
