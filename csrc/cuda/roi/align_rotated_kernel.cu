// NOTE [ Rotated RoIAlign on CUDA ]
// Forward: a thread has a bin of a channel. Backward: NOTE [ Gradients of maps by tiles ]. For a
// box that reaches the tile, each lane tests one of its bins, then one sample of such a bin; those
// that reach the tile are added one after another. Sums have the order of NOTE [ Rotated RoIAlign
// ].
//
// Boxes that are not valid have bins of 0 and no gradient.
#include "core/roi/align_rotated.h"
#include "cuda/roi/channel_tiles.h"

namespace visops {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    roi_align_rotated(const __grid_constant__ RoiAlignRotatedParams rotated) {
  using Acc = typename Accumulate<T>::type;
  const RoiAlignParams& p = rotated.align;
  const RoiMap& m = p.maps[0];
  for_each_bin(p, [&](const BinAt& at) {
    const RotatedRoi<Acc> roi = load_rotated_roi<Acc>(rotated, at.box);
    Acc mean = static_cast<Acc>(0);
    if (roi.valid) {
      const T* plane = static_cast<const T*>(m.data) + roi.image * m.image_stride +
                       at.channel * m.channel_stride;
      const RotatedReach reach = reach_of_map(roi);
      const SampleRange rows = samples_near(roi.y, at.y, reach.top, reach.bottom);
      const SampleRange columns = samples_near(roi.x, at.x, reach.left, reach.right);
      Acc sum = static_cast<Acc>(0);
      for (int64_t row = rows.first; row < rows.last; ++row) {
        for (int64_t column = columns.first; column < columns.last; ++column) {
          const RotatedSample<Acc> sample = rotated_sample(roi, at.y, at.x, row, column);
          if (!sample.on_map) continue;
          const auto term = [&](int i) {
            return sample.weight(i) * load_element(plane + sample.row(i) * m.row_stride +
                                                   sample.column(i) * m.column_stride);
          };
          sum += term(0) + term(1) + term(2) + term(3);
        }
      }
      mean = sum / roi.samples;
    }
    store_element(static_cast<T*>(p.bins) + bin_offset(p, at), mean);
  });
}

struct BinSamples {
  SampleRange rows, columns;

  __device__ int64_t count() const {
    const int64_t height = rows.last - rows.first, width = columns.last - columns.first;
    return height > 0 && width > 0 ? height * width : 0;
  }
};

template <class Acc>
struct RotatedTile {
  const ChannelTile<Acc>& tile;
  const RotatedRoi<Acc> roi;
  const RotatedReach reach;

  __device__ RotatedTile(const RoiAlignRotatedParams& p, const ChannelTile<Acc>& at, int64_t k)
      : tile(at),
        roi(load_rotated_roi<Acc>(p, k)),
        // Samples whose pixels may be in the tile.
        reach(reach_of(roi, static_cast<double>(at.top - 1), static_cast<double>(at.bottom),
                       static_cast<double>(at.left - 1), static_cast<double>(at.right))) {}

  __device__ bool is_reached() const {
    const double half_height = -static_cast<double>(roi.y.start);
    const double half_width = -static_cast<double>(roi.x.start);
    return roi.valid && roi.image == tile.image && reach.top <= half_height &&
           reach.bottom >= -half_height && reach.left <= half_width && reach.right >= -half_width;
  }

  __device__ BinSamples samples(int64_t bin_y, int64_t bin_x) const {
    return {samples_near(roi.y, bin_y, reach.top, reach.bottom),
            samples_near(roi.x, bin_x, reach.left, reach.right)};
  }

  __device__ RotatedSample<Acc> sample(const BinSamples& of, int64_t bin_y, int64_t bin_x,
                                       int64_t i) const {
    const int64_t width = of.columns.last - of.columns.first, row = i / width;
    return rotated_sample(roi, bin_y, bin_x, of.rows.first + row,
                          of.columns.first + i - row * width);
  }

  __device__ bool touches(const RotatedSample<Acc>& s) const {
    return s.on_map && s.y.high >= tile.top && s.y.low < tile.bottom && s.x.high >= tile.left &&
           s.x.low < tile.right;
  }
};

template <class T>
__global__ void __launch_bounds__(kWarp)
    roi_align_rotated_backward(const __grid_constant__ RoiAlignRotatedParams rotated,
                               const ChannelTiles tiles) {
  using Acc = typename Accumulate<T>::type;
  const RoiAlignParams& p = rotated.align;
  const int lane = static_cast<int>(threadIdx.x);
  const auto touches = [&](const ChannelTile<Acc>& tile, int64_t k) {
    return RotatedTile<Acc>(rotated, tile, k).is_reached();
  };
  const auto add_bin = [&](const RotatedTile<Acc>& at, int64_t k, int64_t bin_y, int64_t bin_x) {
    const int64_t channel = at.tile.channel;
    Acc grad = static_cast<Acc>(0);
    if (channel < p.channels) {
      const BinAt bin = {k, channel, bin_y, bin_x};
      grad = load_element(static_cast<const T*>(p.bins) + bin_offset(p, bin)) / at.roi.samples;
    }
    const BinSamples samples = at.samples(bin_y, bin_x);
    const int64_t count = samples.count();
    for (int64_t first = 0; first < count; first += kWarp) {
      const int64_t own = first + lane;
      unsigned left = __ballot_sync(
          kWholeWarp, own < count && at.touches(at.sample(samples, bin_y, bin_x, own)));
      for (; left != 0; left &= left - 1) {
        const RotatedSample<Acc> s =
            at.sample(samples, bin_y, bin_x, first + __ffs(static_cast<int>(left)) - 1);
        for (int i = 0; i < 4; ++i) {
          if (at.tile.has(s.row(i), s.column(i))) {
            at.tile.add(s.row(i), s.column(i), s.weight(i) * grad);
          }
        }
      }
    }
  };
  const auto add = [&](const ChannelTile<Acc>& tile, int64_t k) {
    const RotatedTile<Acc> at(rotated, tile, k);
    const int64_t bins = p.bins_y * p.bins_x;
    for (int64_t first = 0; first < bins; first += kWarp) {
      const int64_t own = first + lane;
      unsigned left = __ballot_sync(
          kWholeWarp, own < bins && at.samples(own / p.bins_x, own % p.bins_x).count() > 0);
      for (; left != 0; left &= left - 1) {
        const int64_t bin = first + __ffs(static_cast<int>(left)) - 1;
        add_bin(at, k, bin / p.bins_x, bin % p.bins_x);
      }
    }
  };
  sum_channel_tiles<Acc>(p, tiles, touches, add);
}

void roi_align_rotated_launch(const RoiAlignRotatedParams& p, void* stream) {
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for_bins(p.align), dim3(kThreads), 0, stream, p);
  };
  with_element_type(p.align.dtype, [&](auto* element) {
    start(roi_align_rotated<std::remove_pointer_t<decltype(element)>>);
  });
}

void roi_align_rotated_backward_launch(const RoiAlignRotatedParams& p, void* stream) {
  const ChannelTiles tiles = channel_tiles(p.align, p.align.channels);
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for(tiles.count), dim3(kWarp), 0, stream, p, tiles);
  };
  with_floating_type(p.align.dtype, [&](auto* element) {
    start(roi_align_rotated_backward<std::remove_pointer_t<decltype(element)>>);
  });
}

const bool registered =
    roi_align_rotated_stub.set(kCudaSlot, roi_align_rotated_launch) &&
    roi_align_rotated_backward_stub.set(kCudaSlot, roi_align_rotated_backward_launch);

}  // namespace
}  // namespace visops
