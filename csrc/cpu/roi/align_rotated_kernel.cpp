// NOTE [ Rotated RoIAlign on the CPU ]
// A bin's samples are listed as pixels' offsets and weights, kSamples at a time, and each list
// serves a block of channels. If channels are adjacent, the loop over them is vectorised; if pixels
// of a row are adjacent instead, channels come one after another. Forward: a task has boxes.
// Backward: a task has blocks of channels of images; it zeroes their gradient and adds the shares
// of the image's boxes, by index.
//
// Rounding: NOTE [ Rotated RoIAlign ]; uint8 results to the nearest, halves to even.
// Assumes from check_rotated_rois() that all boxes are valid.
#include "core/roi/align_rotated.h"

#include "core/dispatch/threads.h"
#include "core/roi/schedule.h"
#include "cpu/roi/bands.h"
#include "cpu/roi/blocks.h"

namespace visops {
namespace {

constexpr int64_t kChannels = kMostChannels;  // summed together
constexpr int64_t kSamples = 32;              // listed at a time

template <class Acc>
struct ListedSample {
  int64_t offset[4];
  Acc weight[4];
};

// use(samples, count) for a bin's samples on the map, in order.
template <class Acc, class Use>
void for_each_list(const RoiMap& m, const RotatedRoi<Acc>& roi, const RotatedReach<double>& reach,
                   int64_t bin_y, int64_t bin_x, const Use& use) {
  const SampleRange rows = samples_near(roi.y, bin_y, reach.top, reach.bottom);
  const SampleRange columns = samples_near(roi.x, bin_x, reach.left, reach.right);
  ListedSample<Acc> list[kSamples];
  int64_t count = 0;
  for (int64_t row = rows.first; row < rows.last; ++row) {
    for (int64_t column = columns.first; column < columns.last; ++column) {
      const RotatedSample<Acc> sample = rotated_sample(roi, bin_y, bin_x, row, column);
      if (!sample.on_map) continue;
      for (int i = 0; i < 4; ++i) {
        list[count].offset[i] = sample.row(i) * m.row_stride + sample.column(i) * m.column_stride;
        list[count].weight[i] = sample.weight(i);
      }
      if (++count == kSamples) {
        use(list, count);
        count = 0;
      }
    }
  }
  use(list, count);
}

// Adds the samples' values to the sums of `channels` channels, `stride` elements apart.
template <class T, class Acc>
void add_values(const ListedSample<Acc>* list, int64_t count, const T* map, int64_t stride,
                int64_t channels, Acc* VISOPS_RESTRICT sums) {
  const auto value = [](const ListedSample<Acc>& s, const T* a, const T* b, const T* c,
                        const T* d) {
    return s.weight[0] * load_element(a) + s.weight[1] * load_element(b) +
           s.weight[2] * load_element(c) + s.weight[3] * load_element(d);
  };
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) {
      const ListedSample<Acc> s = list[i];
      const T *a = map + s.offset[0], *b = map + s.offset[1], *c = map + s.offset[2],
              *d = map + s.offset[3];
      for (int64_t j = 0; j < channels; ++j) sums[j] += value(s, a + j, b + j, c + j, d + j);
    }
    return;
  }
  for (int64_t j = 0; j < channels; ++j) {
    const T* plane = map + j * stride;
    Acc sum = sums[j];
    for (int64_t i = 0; i < count; ++i) {
      const ListedSample<Acc>& s = list[i];
      sum += value(s, plane + s.offset[0], plane + s.offset[1], plane + s.offset[2],
                   plane + s.offset[3]);
    }
    sums[j] = sum;
  }
}

template <class T, class Acc>
void pool_boxes(const RoiAlignRotatedParams& rotated, int64_t begin, int64_t end) {
  const RoiAlignParams& p = rotated.align;
  const RoiMap& m = p.maps[0];
  for (int64_t k = begin; k < end; ++k) {
    const RotatedRoi<Acc> roi = load_rotated_roi<Acc>(rotated, k);
    const auto reach = reach_of_map<double>(roi);
    for (int64_t channel = 0; channel < p.channels; channel += kChannels) {
      const int64_t left = p.channels - channel, channels = left < kChannels ? left : kChannels;
      const T* map =
          static_cast<const T*>(m.data) + roi.image * m.image_stride + channel * m.channel_stride;
      for (int64_t y = 0; y < p.bins_y; ++y) {
        for (int64_t x = 0; x < p.bins_x; ++x) {
          Acc sums[kChannels] = {};
          for_each_list(m, roi, reach, y, x, [&](const ListedSample<Acc>* list, int64_t count) {
            add_values(list, count, map, m.channel_stride, channels, sums);
          });
          T* out = static_cast<T*>(p.bins) + k * p.roi_stride + channel * p.channel_stride +
                   y * p.bin_row_stride + x * p.bin_column_stride;
          for (int64_t c = 0; c < channels; ++c) {
            store_element(out + c * p.channel_stride, sums[c] / roi.samples);
          }
        }
      }
    }
  }
}

void roi_align_rotated_kernel(const RoiAlignRotatedParams& p, Workspace& workspace) {
  const auto boxes = [&](int64_t begin, int64_t end) {
    with_element_type(p.align.dtype, [&](auto* element) {
      using T = std::remove_pointer_t<decltype(element)>;
      using Acc = typename Accumulate<T>::type;
      pool_boxes<T, Acc>(p, begin, end);
    });
  };
  parallel_for(workspace, p.align.boxes.count, grain_of(box_cost(p.align)), boxes);
}

// Adds each sample's share of a bin's gradient to its pixels.
template <class Acc>
void add_shares(const ListedSample<Acc>* list, int64_t count, const Acc* VISOPS_RESTRICT grad,
                int64_t stride, int64_t channels, Acc* VISOPS_RESTRICT map) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) {
      for (int corner = 0; corner < 4; ++corner) {
        Acc* to = map + list[i].offset[corner];
        const Acc weight = list[i].weight[corner];
        for (int64_t j = 0; j < channels; ++j) to[j] += weight * grad[j];
      }
    }
    return;
  }
  for (int64_t j = 0; j < channels; ++j) {
    Acc* plane = map + j * stride;
    for (int64_t i = 0; i < count; ++i) {
      for (int corner = 0; corner < 4; ++corner) {
        plane[list[i].offset[corner]] += list[i].weight[corner] * grad[j];
      }
    }
  }
}

// Channels [first, last) of an image: at most kChannels.
template <class T, class Acc>
void sum_channels(const RoiAlignRotatedParams& rotated, int64_t image, int64_t first,
                  int64_t last) {
  const RoiAlignParams& p = rotated.align;
  const RoiMap& m = p.maps[0];
  const int64_t channels = last - first;
  Acc* map = static_cast<Acc*>(m.data) + image * m.image_stride;
  zero_channels(m, map, first, last);
  map += first * m.channel_stride;
  for (int64_t k = 0; k < p.boxes.count; ++k) {
    const RotatedRoi<Acc> roi = load_rotated_roi<Acc>(rotated, k);
    if (roi.image != image) continue;
    const auto reach = reach_of_map<double>(roi);
    for (int64_t y = 0; y < p.bins_y; ++y) {
      for (int64_t x = 0; x < p.bins_x; ++x) {
        const T* in = static_cast<const T*>(p.bins) + k * p.roi_stride + first * p.channel_stride +
                      y * p.bin_row_stride + x * p.bin_column_stride;
        Acc grad[kChannels];
        for (int64_t c = 0; c < channels; ++c) {
          grad[c] = load_element(in + c * p.channel_stride) / roi.samples;
        }
        for_each_list(m, roi, reach, y, x, [&](const ListedSample<Acc>* list, int64_t count) {
          add_shares(list, count, grad, m.channel_stride, channels, map);
        });
      }
    }
  }
}

void roi_align_rotated_backward_kernel(const RoiAlignRotatedParams& p, Workspace& workspace) {
  for_each_channel_run(p.align, workspace, kChannels,
                       [&](int64_t image, int64_t first, int64_t last) {
                         with_floating_type(p.align.dtype, [&](auto* element) {
                           using T = std::remove_pointer_t<decltype(element)>;
                           using Acc = typename Accumulate<T>::type;
                           sum_channels<T, Acc>(p, image, first, last);
                         });
                       });
}

const bool registered =
    roi_align_rotated_stub.set(kIsaSlot, roi_align_rotated_kernel) &&
    roi_align_rotated_backward_stub.set(kIsaSlot, roi_align_rotated_backward_kernel);

}  // namespace
}  // namespace visops
