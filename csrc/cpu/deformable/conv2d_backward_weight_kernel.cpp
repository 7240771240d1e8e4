// NOTE [ Deformable convolution's gradient of the weight on the CPU ]
// A task owns the gradient of some taps and some input channels, for all output channels of their
// group. It goes through the output pixels of all images in blocks, samples the block's rows for
// its taps and channels alone, and adds their product with the result's gradient. A weight's sum is
// taken over the pixels of a block, then over blocks, so it doesn't depend on how tasks are cut.
//
// Sums are float32 (float64 for float64). Assumes what the front checks.
#include "cpu/deformable/conv2d_samples.h"

namespace visops {
namespace {

constexpr int64_t kMostColumns = 1024;  // of a task's gradient
constexpr int64_t kFewChannels = 16;

// How weights are divided: runs of up to `channels`, by `taps`.
struct WeightPlan {
  int64_t channels, taps;
};

inline WeightPlan plan_weight(const DeformConvParams& p, int64_t threads) {
  int64_t channels =
      p.offset_channels() < p.group_channels() ? p.offset_channels() : p.group_channels();
  channels = channels < kMostColumns / 4 ? channels : kMostColumns / 4;
  const int64_t taps = kMostColumns / channels;
  WeightPlan plan = {channels, taps < p.taps() ? taps : p.taps()};
  const auto tasks = [&] {
    return (p.channels / plan.channels) * ((p.taps() + plan.taps - 1) / plan.taps);
  };
  while (threads > 1 && tasks() < 2 * threads && plan.taps > 1) plan.taps = (plan.taps + 1) / 2;
  while (threads > 1 && tasks() < 2 * threads && plan.channels > kFewChannels) plan.channels /= 2;
  return plan;
}

template <class T>
class WeightGradient {
 public:
  using Acc = typename Accumulate<T>::type;

  WeightGradient(const DeformConvParams& p, Workspace& workspace)
      : p_(p),
        plan_(plan_weight(p, workspace.threads())),
        runs_(channel_runs(p, plan_.channels, workspace)),
        tap_parts_((p.taps() + plan_.taps - 1) / plan_.taps),
        workers_(workspace.threads()),
        zeros_(zero_channels<T>(p, workspace)),
        row_(row_elements<Acc>(plan_.channels * plan_.taps)) {
    scratch_elements_ = (p.group_outputs() + kBlockPixels) * row_;
    scratch_ = allocate<Acc>(workspace, workers_ * scratch_elements_);
  }

  int64_t workers() const { return workers_; }

  void run(int64_t worker) const {
    const int64_t tasks = runs_.count * tap_parts_;
    for (int64_t task = worker; task < tasks; task += workers_) {
      compute(runs_.run[task / tap_parts_], task % tap_parts_ * plan_.taps,
              scratch_ + worker * scratch_elements_);
    }
  }

 private:
  void compute(const ChannelRun& channels, int64_t first_tap, Acc* sums) const {
    const int64_t last_tap =
        first_tap + plan_.taps < p_.taps() ? first_tap + plan_.taps : p_.taps();
    const int64_t outs = p_.group_outputs(), group = channels.first / p_.group_channels();
    const int64_t columns = (last_tap - first_tap) * channels.count;
    Acc* rows = sums + outs * row_;
    // Rows are multiplied as whole vectors, so what follows their last number must be one, too.
    memset(sums, 0, static_cast<size_t>(scratch_elements_) * sizeof(Acc));
    for (int64_t image = 0; image < p_.batch; ++image) {
      for (int64_t first = 0; first < p_.pixels(); first += kBlockPixels) {
        PixelBlock block;
        fill_block(p_, image, first, kBlockPixels, &block);
        fill_rows(p_, block, first_tap, last_tap, channels.first, channels.count, zeros_, rows,
                  row_);
        const Acc* grad = static_cast<const Acc*>(p_.grad) +
                          (image * p_.pixels() + first) * p_.out_channels + group * outs;
        gemm_add_product<Acc>({grad, 1, p_.out_channels}, rows, row_, outs, columns, block.count,
                              sums, row_);
      }
    }
    write(channels, group, first_tap, last_tap, sums);
  }

  void write(const ChannelRun& channels, int64_t group, int64_t first_tap, int64_t last_tap,
             const Acc* sums) const {
    const int64_t outs = p_.group_outputs(), ins = p_.group_channels(), taps = p_.taps();
    const int64_t first = channels.first - group * ins;
    for (int64_t m = 0; m < outs; ++m) {
      T* to = static_cast<T*>(p_.grad_weight) + ((group * outs + m) * ins + first) * taps;
      for (int64_t tap = first_tap; tap < last_tap; ++tap) {
        const Acc* from = sums + m * row_ + (tap - first_tap) * channels.count;
        for (int64_t c = 0; c < channels.count; ++c) store_element(to + c * taps + tap, from[c]);
      }
    }
  }

  const DeformConvParams& p_;
  WeightPlan plan_;
  ChannelRuns runs_;
  int64_t tap_parts_, workers_;
  const T* zeros_;
  int64_t row_, scratch_elements_;
  Acc* scratch_;
};

void backward_weight_kernel(const DeformConvParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const WeightGradient<T> gradient(p, workspace);
    parallel_for(workspace, gradient.workers(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) gradient.run(worker);
    });
  });
}

const bool registered = deform_conv2d_backward_weight_stub.set(kIsaSlot, backward_weight_kernel);

}  // namespace
}  // namespace visops
