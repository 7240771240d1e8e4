// The gradient of the rows of a deformable convolution: NOTE [ Gradients of a deformable
// convolution ] (core/deformable/conv2d.h).
#pragma once

#include "cpu/deformable/conv2d_channel_runs.h"

namespace visops {
namespace {

// Weights by run: for each output channel of the group, a row with the run's channels of each tap.
template <class T>
class RowGradients {
 public:
  using Acc = typename Accumulate<T>::type;

  RowGradients(const DeformConvParams& p, const ChannelRuns& runs, Workspace& workspace)
      : p_(p), runs_(runs), at_(allocate<int64_t>(workspace, runs.count + 1)) {
    at_[0] = 0;
    for (int64_t r = 0; r < runs.count; ++r) at_[r + 1] = at_[r] + p.group_outputs() * row(r);
    packed_ = allocate<Acc>(workspace, at_[runs.count]);
    parallel_for(workspace, runs.count * p.group_outputs(), 1,
                 [&](int64_t begin, int64_t end) { pack(begin, end); });
  }

  // Elements of a run's row; what follows a tap may be read up to a whole vector.
  int64_t row(int64_t run) const {
    return row_elements<Acc>(p_.taps() * runs_.run[run].count + Vector<Acc>::kCount);
  }
  // The same of the rows' gradient for some taps.
  int64_t row_of(int64_t run, int64_t taps) const {
    return row_elements<Acc>(taps * runs_.run[run].count + Vector<Acc>::kCount);
  }

  // The gradient of a block's rows, for a run and taps [first_tap, last_tap).
  void compute(const PixelBlock& block, int64_t run, int64_t first_tap, int64_t last_tap,
               Acc* to) const {
    const ChannelRun& channels = runs_.run[run];
    const int64_t outs = p_.group_outputs(), group = channels.first / p_.group_channels();
    const int64_t to_row = row_of(run, last_tap - first_tap);
    const Acc* grad = static_cast<const Acc*>(p_.grad) +
                      (block.image * p_.pixels() + block.first) * p_.out_channels + group * outs;
    memset(to, 0, static_cast<size_t>(block.count * to_row) * sizeof(Acc));
    gemm_add_product<Acc>({grad, p_.out_channels, 1},
                          packed_ + at_[run] + first_tap * channels.count, row(run), block.count,
                          (last_tap - first_tap) * channels.count, outs, to, to_row);
  }

 private:
  void pack(int64_t begin, int64_t end) const {
    const int64_t outs = p_.group_outputs(), ins = p_.group_channels(), taps = p_.taps();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t run = i / outs, m = i - run * outs;
      const ChannelRun& channels = runs_.run[run];
      const int64_t group = channels.first / ins, c = channels.first - group * ins;
      const T* from = static_cast<const T*>(p_.weight) + ((group * outs + m) * ins + c) * taps;
      Acc* to = packed_ + at_[run] + m * row(run);
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t k = 0; k < channels.count; ++k) *to++ = load_element(from + k * taps + tap);
      }
      Acc* last = packed_ + at_[run] + (m + 1) * row(run);
      while (to < last) *to++ = static_cast<Acc>(0);
    }
  }

  const DeformConvParams& p_;
  ChannelRuns runs_;
  int64_t* at_;  // where each run's weights begin
  Acc* packed_;
};

}  // namespace
}  // namespace visops
