// What kernels read of the rows' gradient: NOTE [ Gradients of a deformable convolution ]
// (core/deformable/conv2d.h).
#pragma once

#include "cuda/deformable/conv2d_samples.h"

namespace visops {
namespace {

// Channels that share a group and an offset group.
struct ChannelRun {
  int64_t first, count;
};

// f(run) for runs of up to `most` channels, in order.
template <class F>
void for_channel_runs(const DeformConvParams& p, int64_t most, const F& f) {
  for (int64_t c = 0; c < p.channels;) {
    const int64_t run = p.run_end(c), end = c + most < run ? c + most : run;
    f(ChannelRun{c, end - c});
    c = end;
  }
}

// The part's gradients of a run. A kernel would divide again for each sample to find them.
template <class Acc>
struct RunGradients {
  const Acc* first;
  int64_t step;  // to the next row, of [part_pixels, taps]
};

template <class Acc>
RunGradients<Acc> run_gradients(const DeformConvParams& p, const ChannelRun& run) {
  const int64_t ins = p.group_channels(), group = run.first / ins;
  return {static_cast<const Acc*>(p.row_gradients) + group * p.part_pixels * p.taps() * ins +
              run.first - group * ins,
          ins};
}

}  // namespace
}  // namespace visops
