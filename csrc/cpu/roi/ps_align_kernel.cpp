// NOTE [ Position-sensitive RoIAlign on the CPU ]
// Forward: a task has boxes; a bin's weights are computed once for all of its channels. Backward: a
// task has bins of images, and so channels of the gradient that no other task has; it zeroes them
// and adds the shares of the image's boxes, by index.
//
// Rounding: NOTE [ RoIAlign samples ]; uint8 results to the nearest, halves to even.
// Assumes from check_rois() that all boxes are valid.
#include "core/roi/pool.h"

#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "cpu/roi/blocks.h"

namespace visops {
namespace {

constexpr int64_t kChannels = 64;  // summed together
constexpr int64_t kColumns = 64;   // kept of a bin

// A bin's columns, kept for all rows unless there are too many.
template <class Acc>
class BinColumns {
 public:
  BinColumns(const RoiAxis<Acc>& axis, int64_t bin) : axis_(axis), bin_(bin) {
    BinPixels<Acc> pixels = bin_pixels(axis, bin);
    while (next_pixel(axis, &pixels)) {
      if (count_ == kColumns) {
        is_all_ = false;
        return;
      }
      pixel_[count_] = pixels.pixel;
      weight_[count_++] = pixels.weight;
    }
  }

  template <class Use>
  void for_each(const Use& use) const {
    if (is_all_) {
      for (int64_t i = 0; i < count_; ++i) use(pixel_[i], weight_[i]);
      return;
    }
    BinPixels<Acc> pixels = bin_pixels(axis_, bin_);
    while (next_pixel(axis_, &pixels)) use(pixels.pixel, pixels.weight);
  }

 private:
  const RoiAxis<Acc>& axis_;
  const int64_t bin_;
  int64_t pixel_[kColumns], count_ = 0;
  Acc weight_[kColumns];
  bool is_all_ = true;
};

// The distance between channels of a bin.
int64_t step_of(const RoiAlignParams& p) {
  return p.maps[0].channel_stride * ps_channel(p, 1, 0, 0);
}

template <class T, class Acc>
void pool_bin(const RoiAlignParams& p, const Roi<Acc>& roi, int64_t k, int32_t y, int32_t x) {
  const RoiMap& m = p.maps[0];
  const int64_t step = step_of(p);
  const Acc factor = mean_factor(roi.y, roi.x);
  const BinColumns<Acc> columns(roi.x, x);
  T* out =
      static_cast<T*>(p.bins) + k * p.roi_stride + y * p.bin_row_stride + x * p.bin_column_stride;
  for (int64_t channel = 0; channel < p.channels; channel += kChannels) {
    const int64_t left = p.channels - channel, channels = left < kChannels ? left : kChannels;
    const T* map = static_cast<const T*>(m.data) + roi.image * m.image_stride +
                   ps_channel(p, channel, y, x) * m.channel_stride;
    Acc total[kChannels] = {};
    BinPixels<Acc> rows = bin_pixels(roi.y, y);
    while (next_pixel(roi.y, &rows)) {
      Acc of_row[kChannels] = {};
      columns.for_each([&](int64_t column, Acc weight) {
        const T* at = map + rows.pixel * m.row_stride + column * m.column_stride;
        for (int64_t c = 0; c < channels; ++c) of_row[c] += weight * load_element(at + c * step);
      });
      const Acc weight = rows.weight * factor;
      for (int64_t c = 0; c < channels; ++c) total[c] += weight * of_row[c];
    }
    for (int64_t c = 0; c < channels; ++c) {
      store_element(out + (channel + c) * p.channel_stride, total[c]);
    }
  }
}

template <class T, class Acc>
void pool_boxes(const RoiAlignParams& p, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    const Roi<Acc> roi = load_roi<Acc>(p, k);
    for (int64_t y = 0; y < p.bins_y; ++y) {
      for (int64_t x = 0; x < p.bins_x; ++x) pool_bin<T>(p, roi, k, y, x);
    }
  }
}

void ps_roi_align_kernel(const RoiAlignParams& p, Workspace& workspace) {
  const auto boxes = [&](int64_t begin, int64_t end) {
    with_element_type(p.dtype, [&](auto* element) {
      using T = std::remove_pointer_t<decltype(element)>;
      using Acc = typename Accumulate<T>::type;
      pool_boxes<T, Acc>(p, begin, end);
    });
  };
  parallel_for(workspace, p.boxes.count, grain_of(box_cost(p)), boxes);
}

// Adds a bin's share to at most kChannels channels from `channel` on; `map` is the first one's
// plane.
template <class T, class Acc>
void add_bin(const RoiAlignParams& p, const Roi<Acc>& roi, int64_t k, int64_t y, int64_t x,
             int64_t channel, int64_t channels, Acc* map) {
  const RoiMap& m = p.maps[0];
  const int64_t step = step_of(p);
  const Acc factor = mean_factor(roi.y, roi.x);
  const BinColumns<Acc> columns(roi.x, x);
  const T* in = static_cast<const T*>(p.bins) + k * p.roi_stride + y * p.bin_row_stride +
                x * p.bin_column_stride;
  Acc grad[kChannels], of_row[kChannels];
  for (int64_t c = 0; c < channels; ++c) {
    grad[c] = load_element(in + (channel + c) * p.channel_stride);
  }
  BinPixels<Acc> rows = bin_pixels(roi.y, y);
  while (next_pixel(roi.y, &rows)) {
    const Acc weight = rows.weight * factor;
    for (int64_t c = 0; c < channels; ++c) of_row[c] = weight * grad[c];
    columns.for_each([&](int64_t column, Acc column_weight) {
      Acc* at = map + rows.pixel * m.row_stride + column * m.column_stride;
      for (int64_t c = 0; c < channels; ++c) at[c * step] += column_weight * of_row[c];
    });
  }
}

template <class T, class Acc>
void sum_bins(const RoiAlignParams& p, int64_t begin, int64_t end) {
  const RoiMap& m = p.maps[0];
  const int64_t bins = p.bins_y * p.bins_x, pixels = m.height * m.width;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / bins, y = i % bins / p.bins_x, x = i % p.bins_x;
    for (int64_t channel = 0; channel < p.channels; channel += kChannels) {
      const int64_t left = p.channels - channel, channels = left < kChannels ? left : kChannels;
      Acc* map = static_cast<Acc*>(m.data) + image * m.image_stride +
                 ps_channel(p, channel, y, x) * m.channel_stride;
      for (int64_t c = 0; c < channels; ++c) {
        Acc* plane = map + c * step_of(p);
        for (int64_t at = 0; at < pixels; ++at) plane[at * m.column_stride] = static_cast<Acc>(0);
      }
      for (int64_t k = 0; k < p.boxes.count; ++k) {
        const Roi<Acc> roi = load_roi<Acc>(p, k);
        if (roi.image == image) add_bin<T>(p, roi, k, y, x, channel, channels, map);
      }
    }
  }
}

void ps_roi_align_backward_kernel(const RoiAlignParams& p, Workspace& workspace) {
  const auto bins = [&](int64_t begin, int64_t end) {
    with_floating_type(p.dtype, [&](auto* element) {
      using T = std::remove_pointer_t<decltype(element)>;
      using Acc = typename Accumulate<T>::type;
      sum_bins<T, Acc>(p, begin, end);
    });
  };
  const int64_t cost = p.maps[0].height * p.maps[0].width * p.channels;
  parallel_for(workspace, p.images * p.bins_y * p.bins_x, grain_of(cost), bins);
}

const bool registered = ps_roi_align_stub.set(kIsaSlot, ps_roi_align_kernel) &&
                        ps_roi_align_backward_stub.set(kIsaSlot, ps_roi_align_backward_kernel);

}  // namespace
}  // namespace visops
