// The numbers of channels in shared memory, in the accumulation type: GPUs convert float64 slowly,
// and every pixel wants them.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"

namespace visops {
namespace {

template <class Acc>
struct ChannelValues {
  Acc fill[kMaxAugmentChannels], scale[kMaxAugmentChannels], offset[kMaxAugmentChannels],
      erase[kMaxAugmentChannels];  // at value_index()
  Acc input_scale;
};

// By `threads` threads of the block; this is number `thread`. The first channels of a group have
// values of their own, even if there is one for all.
template <class Acc>
__device__ inline void share_values(const AugmentParams& p, int thread, int threads,
                                    ChannelValues<Acc>* values) {
  const int64_t count = p.value_count > kPixelGroup ? p.value_count : kPixelGroup;
  for (int i = thread; i < count; i += threads) {
    const int from = p.value_count == 1 ? 0 : i;
    values->fill[i] = static_cast<Acc>(p.fill[from]);
    values->scale[i] = static_cast<Acc>(p.scale[from]);
    values->offset[i] = static_cast<Acc>(p.offset[from]);
    values->erase[i] = static_cast<Acc>(p.erase_value[from]);
  }
  if (thread == 0) values->input_scale = static_cast<Acc>(p.input_scale);
}

}  // namespace
}  // namespace visops
