// How the channels of a deformable convolution are divided.
#pragma once

#include "core/dispatch/workspace.h"
#include "cpu/deformable/conv2d_samples.h"

namespace visops {
namespace {

// Channels that share a group and an offset group, or a part of them.
struct ChannelRun {
  int64_t first, count;
};

struct ChannelRuns {
  ChannelRun* run;
  int64_t count;
};

// All channels in runs of up to `most`.
inline ChannelRuns channel_runs(const DeformConvParams& p, int64_t most, Workspace& workspace) {
  ChannelRuns runs = {nullptr, 0};
  for (int pass = 0; pass < 2; ++pass) {
    int64_t count = 0;
    for (int64_t c = 0; c < p.channels; ++count) {
      const int64_t run = p.run_end(c), end = c + most < run ? c + most : run;
      if (pass == 1) runs.run[count] = {c, end - c};
      c = end;
    }
    runs.count = count;
    if (pass == 0) runs.run = allocate<ChannelRun>(workspace, count);
  }
  return runs;
}

}  // namespace
}  // namespace visops
