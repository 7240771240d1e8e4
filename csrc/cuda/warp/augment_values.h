// The numbers of channels in shared memory, in the accumulation type: GPUs convert float64 slowly,
// and every pixel wants them.
#pragma once

#include "core/warp/augment_pixel.h"
#include "cuda/launch.h"

namespace visops {
namespace {

template <class Acc>
struct ChannelValues {
  Acc fill[kMaxAugmentChannels], scale[kMaxAugmentChannels], offset[kMaxAugmentChannels],
      erase[kMaxAugmentChannels];  // at value_index()
  Acc input_scale;
};

// By `threads` threads of the block; this is number `thread`.
template <class Acc>
__device__ inline void share_values(const AugmentParams& p, int thread, int threads,
                                    ChannelValues<Acc>* values) {
  for (int i = thread; i < p.value_count; i += threads) {
    values->fill[i] = static_cast<Acc>(p.fill[i]);
    values->scale[i] = static_cast<Acc>(p.scale[i]);
    values->offset[i] = static_cast<Acc>(p.offset[i]);
    values->erase[i] = static_cast<Acc>(p.erase_value[i]);
  }
  if (thread == 0) values->input_scale = static_cast<Acc>(p.input_scale);
}

}  // namespace
}  // namespace visops
