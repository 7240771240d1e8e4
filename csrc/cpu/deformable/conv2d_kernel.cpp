// NOTE [ Deformable convolution on the CPU ]
// A task has a block of output pixels of one image and one group. It samples rows (NOTE [ Samples
// of a deformable convolution ], core/deformable/conv2d.h) of some taps, or of some channels of one
// tap, into scratch that stays in the second-level cache, multiplies them by the weights, and goes
// on with the next ones. Channels are adjacent, so a tap is read in vectors of channels. Results
// are collected pixel by pixel and written at the end.
//
// Weights are packed once: a row for each tap and channel, with all output channels of the group.
// Where rows of a product begin depends on the shapes alone, so no sum depends on how the work is
// divided. Assumes what the front checks.
#include "core/dispatch/threads.h"
#include "cpu/deformable/conv2d_samples.h"

namespace visops {
namespace {

// Bytes of scratch for rows.
constexpr int64_t kRowBytes = 256 << 10;

struct ForwardPlan {
  int64_t pixels;  // of a block
  int64_t depth;   // numbers of a row at a time
};

template <class Acc>
ForwardPlan plan_forward(const DeformConvParams& p, int64_t threads) {
  ForwardPlan plan = {kBlockPixels, kRowBytes / kBlockPixels / static_cast<int64_t>(sizeof(Acc))};
  // Small images: smaller blocks, so that all threads have some.
  const auto tasks = [&] {
    return p.batch * p.groups * ((p.pixels() + plan.pixels - 1) / plan.pixels);
  };
  while (plan.pixels > kGemmRows && tasks() < 4 * threads) plan.pixels /= 2;
  return plan;
}

template <class T>
class Forward {
 public:
  using Acc = typename Accumulate<T>::type;

  Forward(const DeformConvParams& p, Workspace& workspace)
      : p_(p),
        plan_(plan_forward<Acc>(p, workspace.threads())),
        width_(gemm_width<Acc>(p.group_outputs())),
        zeros_(zero_channels<T>(p, workspace)) {
    const int64_t full = p.taps() * p.group_channels();
    depth_row_ = row_elements<Acc>(full < plan_.depth ? full : plan_.depth);
    packed_ = allocate<Acc>(workspace, p.channels * p.taps() * width_);
    scratch_elements_ = plan_.pixels * (depth_row_ + row_elements<Acc>(width_));
    workers_ = workspace.threads();
    scratch_ = allocate<Acc>(workspace, workers_ * scratch_elements_);
    blocks_ = (p.pixels() + plan_.pixels - 1) / plan_.pixels;
  }

  // Weights of input channels [begin, end). Some rows of them at a time, read in order: rows are
  // often apart by a multiple of what caches can tell apart.
  void pack(int64_t begin, int64_t end) const {
    constexpr int64_t kRows = Vector<Acc>::kCount;
    const int64_t taps = p_.taps(), ins = p_.group_channels(), outs = p_.group_outputs();
    const T* weight = static_cast<const T*>(p_.weight);
    for (int64_t first = 0; first < width_; first += kRows) {
      for (int64_t channel = begin; channel < end; ++channel) {
        const int64_t group = channel / ins, c = channel - group * ins;
        const T* from = weight + ((group * outs + first) * ins + c) * taps;
        Acc* to = packed_ + (group * taps * ins + c) * width_ + first;
        for (int64_t tap = 0; tap < taps; ++tap, ++from, to += ins * width_) {
          for (int64_t m = 0; m < kRows; ++m) {
            to[m] = first + m < outs ? load_element(from + m * ins * taps) : static_cast<Acc>(0);
          }
        }
      }
    }
  }

  int64_t tasks() const { return p_.batch * p_.groups * blocks_; }
  int64_t workers() const { return workers_; }

  void run(int64_t worker) const {
    Acc* rows = scratch_ + worker * scratch_elements_;
    const int64_t end = tasks() * (worker + 1) / workers_;
    for (int64_t task = tasks() * worker / workers_; task < end; ++task) {
      const int64_t group = task % p_.groups, which = task / p_.groups;
      PixelBlock block;
      fill_block(p_, which / blocks_, which % blocks_ * plan_.pixels, plan_.pixels, &block);
      compute(block, group, rows, rows + plan_.pixels * depth_row_);
    }
  }

 private:
  void compute(const PixelBlock& block, int64_t group, Acc* rows, Acc* sums) const {
    const int64_t ins = p_.group_channels(), taps = p_.taps(), sums_row = row_elements<Acc>(width_);
    start(block, group, sums, sums_row);
    const Acc* weights = packed_ + group * taps * ins * width_;
    // Whole taps, or channels of one tap.
    const int64_t tap_step = ins < plan_.depth ? plan_.depth / ins : 1;
    const int64_t channel_step = ins < plan_.depth ? ins : plan_.depth;
    for (int64_t tap = 0; tap < taps; tap += tap_step) {
      const int64_t last_tap = tap + tap_step < taps ? tap + tap_step : taps;
      for (int64_t c = 0; c < ins; c += channel_step) {
        const int64_t channels = ins - c < channel_step ? ins - c : channel_step;
        fill_rows(p_, block, tap, last_tap, group * ins + c, channels, zeros_, rows, depth_row_);
        gemm_add_product<Acc>({rows, depth_row_, 1}, weights + (tap * ins + c) * width_, width_,
                              block.count, width_, (last_tap - tap) * channels, sums, sums_row);
      }
    }
    write(block, group, sums, sums_row);
  }

  void start(const PixelBlock& block, int64_t group, Acc* sums, int64_t row) const {
    const int64_t outs = p_.group_outputs();
    const T* bias = static_cast<const T*>(p_.bias);
    for (int64_t m = 0; m < width_; ++m) {
      const bool is_there = bias != nullptr && m < outs;
      sums[m] = is_there ? load_element(bias + group * outs + m) : static_cast<Acc>(0);
    }
    for (int64_t i = 1; i < block.count; ++i) {
      memcpy(sums + i * row, sums, static_cast<size_t>(width_) * sizeof(Acc));
    }
  }

  void write(const PixelBlock& block, int64_t group, const Acc* sums, int64_t row) const {
    const int64_t outs = p_.group_outputs(), channel = p_.output_channel, pixel = p_.output_pixel;
    T* to = static_cast<T*>(p_.output) + block.image * p_.output_batch + group * outs * channel +
            block.first * pixel;
    if (channel == 1) {
      for (int64_t i = 0; i < block.count; ++i) {
        for (int64_t m = 0; m < outs; ++m) {
          store_element(to + i * pixel + m, sums[i * row + m]);
        }
      }
      return;
    }
    int64_t m = 0;
    if constexpr (std::is_same<T, float>::value) {
      for (; m + 4 <= outs && pixel == 1; m += 4) {
        int64_t i = 0;
        for (; i + 4 <= block.count; i += 4) {
          Quad quad[4];
          for (int k = 0; k < 4; ++k) quad[k] = Quad::load(sums + (i + k) * row + m);
          transpose(quad);
          for (int k = 0; k < 4; ++k) quad[k].store(to + (m + k) * channel + i);
        }
        for (; i < block.count; ++i) {
          for (int k = 0; k < 4; ++k) to[(m + k) * channel + i] = sums[i * row + m + k];
        }
      }
    }
    for (; m < outs; ++m) {
      for (int64_t i = 0; i < block.count; ++i) {
        store_element(to + m * channel + i * pixel, sums[i * row + m]);
      }
    }
  }

  const DeformConvParams& p_;
  ForwardPlan plan_;
  int64_t width_;  // output channels of a group, padded
  const T* zeros_;
  int64_t depth_row_, scratch_elements_, workers_, blocks_;
  Acc *packed_, *scratch_;
};

void deform_conv2d_kernel(const DeformConvParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const Forward<T> forward(p, workspace);
    parallel_for(workspace, p.channels, grain_of(p.taps() * p.group_outputs()),
                 [&](int64_t begin, int64_t end) { forward.pack(begin, end); });
    parallel_for(workspace, forward.workers(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) forward.run(worker);
    });
  });
}

const bool registered = deform_conv2d_stub.set(kIsaSlot, deform_conv2d_kernel);

}  // namespace
}  // namespace visops
