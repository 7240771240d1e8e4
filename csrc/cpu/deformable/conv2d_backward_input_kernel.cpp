// NOTE [ Deformable convolution's gradient of the input on the CPU ]
// A task owns some channels of an image's gradient. It goes through the output pixels in blocks,
// computes the gradient of the block's rows for its channels, and adds it to the pixels that the
// samples read. So each pixel's sum is in the order of NOTE [ Gradients of a deformable convolution
// ] (core/deformable/conv2d.h), however channels are divided, and there are no atomics.
//
// Sums are float32 (float64 for float64). Assumes what the front checks.
#include "cpu/deformable/conv2d_samples.h"

namespace visops {
namespace {

constexpr int64_t kMostChannels = 64, kFewChannels = 16;  // of a task

inline int64_t task_channels(const DeformConvParams& p, int64_t threads) {
  int64_t channels = kMostChannels;
  while (channels > kFewChannels && p.batch * (p.channels / channels) < 2 * threads &&
         threads > 1) {
    channels /= 2;
  }
  return channels;
}

template <class T>
class InputGradient {
 public:
  using Acc = typename Accumulate<T>::type;

  InputGradient(const DeformConvParams& p, Workspace& workspace)
      : p_(p),
        runs_(channel_runs(p, task_channels(p, workspace.threads()), workspace)),
        rows_(p, runs_, workspace),
        workers_(workspace.threads()) {
    int64_t most = 0;
    for (int64_t r = 0; r < runs_.count; ++r) {
      const int64_t row = rows_.row_of(r, p.taps());
      most = row > most ? row : most;
    }
    scratch_elements_ = most * kBlockPixels;
    scratch_ = allocate<Acc>(workspace, workers_ * scratch_elements_);
  }

  int64_t workers() const { return workers_; }

  void run(int64_t worker) const {
    const int64_t tasks = p_.batch * runs_.count;
    for (int64_t task = worker; task < tasks; task += workers_) {
      compute(task / runs_.count, task % runs_.count, scratch_ + worker * scratch_elements_);
    }
  }

 private:
  void compute(int64_t image, int64_t run, Acc* gradients) const {
    const ChannelRun& channels = runs_.run[run];
    const int64_t offset_group = channels.first / p_.offset_channels(),
                  row = rows_.row_of(run, p_.taps());
    const int64_t positions = p_.y.input * p_.x.input;
    Acc* sums = static_cast<Acc*>(p_.grad_input) + image * positions * p_.channels + channels.first;
    for (int64_t i = 0; i < positions; ++i) {
      Acc* pixel = sums + i * p_.channels;
      for (int64_t c = 0; c < channels.count; ++c) pixel[c] = static_cast<Acc>(0);
    }
    BlockSamples<Acc> samples;
    for (int64_t first = 0; first < p_.pixels(); first += kBlockPixels) {
      PixelBlock block;
      fill_block(p_, image, first, kBlockPixels, &block);
      rows_.compute(block, run, 0, p_.taps(), gradients);
      for (int64_t tap = 0; tap < p_.taps(); ++tap) {
        locate_block(p_, block, offset_group, tap, &samples);
        add_block(block, samples, gradients + tap * channels.count, row, channels.count, sums);
      }
    }
  }

  void add_block(const PixelBlock& block, const BlockSamples<Acc>& s, const Acc* gradients,
                 int64_t row, int64_t channels, Acc* sums) const {
    const int64_t below = p_.x.input * p_.channels;
    for (int64_t i = 0; i < block.count; ++i) {
      if (s.taps[i] == 0) continue;
      Acc* first = sums + s.y[i] * below + s.x[i] * p_.channels;
      Acc* tap[4] = {first, first + p_.channels, first + below, first + below + p_.channels};
      const Acc* gradient = gradients + i * row;
      const int64_t rest = for_parts<Acc>(channels, [&](auto parts, int64_t c) {
        Part<Acc> factor[parts];
        for (int n = 0; n < parts; ++n) factor[n] = load_part(gradient + c + n * kPartCount<Acc>);
        for (int k = 0; k < 4; ++k) {
          if ((s.taps[i] >> k & 1) == 0) continue;
          const Part<Acc> weight = repeated(s.weight[k][i]);
          for (int n = 0; n < parts; ++n) {
            Acc* to = tap[k] + c + n * kPartCount<Acc>;
            store_part(to, load_part(to) + weight * factor[n]);
          }
        }
      });
      if (rest == channels) continue;
      for (int k = 0; k < 4; ++k) {
        if ((s.taps[i] >> k & 1) == 0) continue;
        for (int64_t c = rest; c < channels; ++c) tap[k][c] += s.weight[k][i] * gradient[c];
      }
    }
  }

  const DeformConvParams& p_;
  ChannelRuns runs_;
  RowGradients<T> rows_;
  int64_t workers_, scratch_elements_;
  Acc* scratch_;
};

void backward_input_kernel(const DeformConvParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const InputGradient<T> gradient(p, workspace);
    parallel_for(workspace, gradient.workers(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) gradient.run(worker);
    });
  });
}

const bool registered = deform_conv2d_backward_input_stub.set(kIsaSlot, backward_input_kernel);

}  // namespace
}  // namespace visops
