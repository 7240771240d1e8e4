// NOTE [ Gradients of offsets and masks on the CPU ]
// A task has a block of output pixels and an offset group. For some taps at a time it computes the
// gradient of the block's rows, then for each sample the sums over channels of that gradient times
// the four pixels, in vectors of channels, and combines them in vectors of samples. Each sample's
// gradient is its own.
//
// Rounding: NOTE [ Gradients of a deformable convolution ] (core/deformable/conv2d.h). Lanes begin
// with their first product rather than with 0, which only negative zeros could tell, and those are
// gone in coordinate_gradient(). Assumes what the front checks.
#include "cpu/deformable/conv2d_samples.h"

namespace visops {
namespace {

// Bytes of scratch for the rows' gradient.
constexpr int64_t kGradientBytes = 256 << 10;

template <class T>
class OffsetGradient {
 public:
  using Acc = typename Accumulate<T>::type;

  OffsetGradient(const DeformConvParams& p, Workspace& workspace)
      : p_(p),
        runs_(channel_runs(p, p.channels, workspace)),
        rows_(p, runs_, workspace),
        first_run_(allocate<int64_t>(workspace, p.offset_groups + 1)),
        workers_(workspace.threads()),
        zeros_(zero_channels<T>(p, workspace)) {
    int64_t widest = 0, most = 0;
    first_run_[p.offset_groups] = runs_.count;
    for (int64_t r = runs_.count - 1; r >= 0; --r) {
      first_run_[runs_.run[r].first / p.offset_channels()] = r;
      widest = runs_.run[r].count > widest ? runs_.run[r].count : widest;
    }
    taps_ = kGradientBytes / (kBlockPixels * widest * static_cast<int64_t>(sizeof(Acc)));
    taps_ = taps_ < 1 ? 1 : taps_ < p.taps() ? taps_ : p.taps();
    for (int64_t r = 0; r < runs_.count; ++r) {
      const int64_t row = rows_.row_of(r, taps_);
      most = row > most ? row : most;
    }
    sums_elements_ = taps_ * kBlockPixels * 4;
    scratch_elements_ = sums_elements_ + most * kBlockPixels;
    scratch_ = allocate<Acc>(workspace, workers_ * scratch_elements_);
  }

  int64_t workers() const { return workers_; }

  void run(int64_t worker) const {
    Acc* sums = scratch_ + worker * scratch_elements_;
    const int64_t blocks = p_.blocks(), tasks = p_.batch * blocks * p_.offset_groups;
    const int64_t end = tasks * (worker + 1) / workers_;
    for (int64_t task = tasks * worker / workers_; task < end; ++task) {
      const int64_t offset_group = task % p_.offset_groups, which = task / p_.offset_groups;
      PixelBlock block;
      fill_block(p_, which / blocks, which % blocks * kBlockPixels, kBlockPixels, &block);
      for (int64_t tap = 0; tap < p_.taps(); tap += taps_) {
        const int64_t last = tap + taps_ < p_.taps() ? tap + taps_ : p_.taps();
        differentiate(block, offset_group, tap, last, sums, sums + sums_elements_);
      }
    }
  }

 private:
  void differentiate(const PixelBlock& block, int64_t offset_group, int64_t first_tap,
                     int64_t last_tap, Acc* sums, Acc* gradients) const {
    BlockSamples<Acc> samples;
    for (int64_t run = first_run_[offset_group]; run < first_run_[offset_group + 1]; ++run) {
      const int64_t row = rows_.row_of(run, last_tap - first_tap);
      const ChannelRun& channels = runs_.run[run];
      rows_.compute(block, run, first_tap, last_tap, gradients);
      for (int64_t tap = first_tap; tap < last_tap; ++tap) {
        locate_block(p_, block, offset_group, tap, &samples);
        add_sums(block, samples, channels, gradients + (tap - first_tap) * channels.count, row,
                 run == first_run_[offset_group], sums + (tap - first_tap) * kBlockPixels * 4);
      }
    }
    for (int64_t tap = first_tap; tap < last_tap; ++tap) {
      locate_block(p_, block, offset_group, tap, &samples);
      write(block, samples, offset_group, tap, sums + (tap - first_tap) * kBlockPixels * 4);
    }
  }

  // sums: [pixels, 4], to which those of a run are added.
  void add_sums(const PixelBlock& block, const BlockSamples<Acc>& s, const ChannelRun& channels,
                const Acc* gradients, int64_t row, bool is_first, Acc* sums) const {
    const T* image =
        static_cast<const T*>(p_.input) + block.image * p_.input_batch + channels.first;
    for (int64_t i = 0; i < block.count; ++i, sums += 4) {
      Acc sum[4] = {};
      if (s.taps[i] != 0) {
        const T* tap[4];
        const T* first = image + s.y[i] * p_.input_row + s.x[i] * p_.input_column;
        find_taps(s.taps[i], first, p_.input_column, p_.input_row, zeros_, tap);
        sum_products(s.taps[i], tap, gradients + i * row, channels.count, sum);
      }
      for (int k = 0; k < 4; ++k) sums[k] = is_first ? sum[k] : sums[k] + sum[k];
    }
  }

  void write(const PixelBlock& block, const BlockSamples<Acc>& s, int64_t offset_group, int64_t tap,
             const Acc* sums) const {
    const int64_t at = samples_at(p_, block.image, offset_group, tap);
    Acc* of_y = static_cast<Acc*>(p_.grad_offset) + 2 * at + block.first;
    Acc* of_x = of_y + p_.pixels();
    Acc* of_mask =
        p_.grad_mask != nullptr ? static_cast<Acc*>(p_.grad_mask) + at + block.first : nullptr;
    for (int64_t i = 0; i < block.count; ++i) {
      const BilinearSample<Acc> position = {s.y[i], s.x[i], s.fy[i], s.fx[i], s.taps[i]};
      const CoordinateGradient<Acc> gradient =
          coordinate_gradient(position, s.mask[i], sums + 4 * i);
      of_y[i] = gradient.y;
      of_x[i] = gradient.x;
      if (of_mask != nullptr) of_mask[i] = gradient.scale;
    }
  }

  const DeformConvParams& p_;
  ChannelRuns runs_;
  RowGradients<T> rows_;
  int64_t* first_run_;  // [offset_groups + 1] the first run of each
  int64_t workers_;
  const T* zeros_;
  int64_t taps_, sums_elements_, scratch_elements_;
  Acc* scratch_;
};

void backward_offset_kernel(const DeformConvParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const OffsetGradient<T> gradient(p, workspace);
    parallel_for(workspace, gradient.workers(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) gradient.run(worker);
    });
  });
}

const bool registered = deform_conv2d_backward_offset_stub.set(kIsaSlot, backward_offset_kernel);

}  // namespace
}  // namespace visops
