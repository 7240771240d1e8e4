// Where the bins of a region of interest lie on a map, and which pixels their samples read.
//
// NOTE [ RoIAlign samples ]
// The arithmetic is torchvision's, operation by operation in the type that is computed in, so that
// samples lie at exactly its coordinates: at 300 pixels, rounding a float32 coordinate changes the
// result more than rounding all sums does. A sample's weight is the product of a number of its row
// and one of its column, and each axis decides by itself whether a sample is on the map. So the
// mean of a bin's grid of samples is separable: along either axis a bin has a few pixels, each with
// the sum of its samples' weights (BinPixels), and
//
//     mean[bin_y, bin_x] = sum over rows r of  w(r) * (sum over columns c of  w(c) * map[r, c])
//
// where w(r) already includes the divisor. Sums start from 0 and go by rising pixels. A pixel is
// read once however many samples touch it, and pixels of weight 0 are not read.
//
// Samples off the map cost nothing: those on it are found by bisection, so a region of any size
// costs no more than the map.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/platform.h"

namespace visops {

// A region along one axis.
template <class Acc>
struct RoiAxis {
  Acc start, bin;        // of the region, and the length of a bin, in pixels
  int32_t bins, extent;  // bins, and pixels of the map
  uint32_t grid;         // samples in each bin, at most kMostGrid
};

// A bin with more samples has them more than a pixel apart; no map is that large.
constexpr uint32_t kMostGrid = uint32_t{1} << 31;

// About one sample per pixel of a bin this long.
template <class Acc>
VISOPS_FN uint32_t samples_of_length(Acc bin) {
  if (!(bin < static_cast<Acc>(kMostGrid))) return kMostGrid;
  return bin > static_cast<Acc>(0) ? static_cast<uint32_t>(ceil(bin)) : 0;
}

// From `begin` to `end` in the boxes' units. `sampling_ratio` <= 0: samples_of_length().
template <class Acc>
VISOPS_FN RoiAxis<Acc> roi_axis(Acc begin, Acc end, Acc scale, bool aligned, int64_t bins,
                                int64_t sampling_ratio, int64_t extent) {
  const Acc offset = aligned ? static_cast<Acc>(0.5) : static_cast<Acc>(0);
  RoiAxis<Acc> axis;
  axis.start = begin * scale - offset;
  const Acc stop = end * scale - offset;
  Acc size = stop - axis.start;
  if (!aligned && size < static_cast<Acc>(1)) size = static_cast<Acc>(1);
  axis.bin = size / static_cast<Acc>(bins);
  axis.bins = static_cast<int32_t>(bins);
  axis.extent = static_cast<int32_t>(extent);
  axis.grid =
      sampling_ratio > 0 ? static_cast<uint32_t>(sampling_ratio) : samples_of_length(axis.bin);
  return axis;
}

// Finite, and not of negative length.
template <class Acc>
VISOPS_FN bool is_valid(const RoiAxis<Acc>& axis) {
  const Acc size = axis.bin * static_cast<Acc>(axis.bins);
  return axis.start - axis.start == static_cast<Acc>(0) && size - size == static_cast<Acc>(0) &&
         axis.bin >= static_cast<Acc>(0);
}

template <class Acc>
VISOPS_FN Acc sample_at(const RoiAxis<Acc>& axis, int32_t bin, uint32_t i) {
  return axis.start + static_cast<Acc>(bin) * axis.bin +
         (static_cast<Acc>(i) + static_cast<Acc>(0.5)) * axis.bin / static_cast<Acc>(axis.grid);
}

// Whether a sample counts: up to a pixel outside the map's outermost centres.
template <class Acc>
VISOPS_FN bool is_on_map(Acc at, int32_t extent) {
  return at >= static_cast<Acc>(-1) && at <= static_cast<Acc>(extent);
}

// The two pixels beside a sample on the map; at the far border they are the same.
template <class Acc>
struct RoiTaps {
  int32_t low, high;
  Acc low_weight, high_weight;
  bool moves;  // whether the weights change with the sample's place
};

template <class Acc>
VISOPS_FN RoiTaps<Acc> roi_taps(Acc at, int32_t extent) {
  RoiTaps<Acc> taps;
  taps.moves = at > static_cast<Acc>(0);
  if (!taps.moves) at = static_cast<Acc>(0);
  const uint32_t low = static_cast<uint32_t>(at);  // an extent may round up to 2^31
  const int32_t last = extent - 1;
  taps.low = taps.high = last;
  if (low < static_cast<uint32_t>(last)) {
    taps.low = static_cast<int32_t>(low);
    taps.high = taps.low + 1;
  } else {
    at = static_cast<Acc>(last);
    taps.moves = false;
  }
  taps.high_weight = at - static_cast<Acc>(taps.low);
  taps.low_weight = static_cast<Acc>(1) - taps.high_weight;
  return taps;
}

// A bin's samples on the map: first <= i < last.
struct SampleRange {
  uint32_t first, last;
};

template <class Acc>
VISOPS_FN SampleRange samples_on_map(const RoiAxis<Acc>& axis, int32_t bin) {
  SampleRange range = {0, axis.grid};
  if (axis.grid == 0) return range;
  const Acc low = static_cast<Acc>(-1), high = static_cast<Acc>(axis.extent);
  if (sample_at(axis, bin, 0) < low) {
    uint32_t outside = 0, found = axis.grid;  // sample `found` is inside or the end
    while (found - outside > 1) {
      const uint32_t middle = outside + (found - outside) / 2;
      (sample_at(axis, bin, middle) < low ? outside : found) = middle;
    }
    range.first = found;
  }
  if (range.first < range.last && sample_at(axis, bin, axis.grid - 1) > high) {
    uint32_t inside = range.first - 1;  // may be -1: differences are right nonetheless
    uint32_t found = axis.grid - 1;     // this sample is outside
    while (found - inside > 1) {
      const uint32_t middle = inside + (found - inside) / 2;
      (sample_at(axis, bin, middle) > high ? found : inside) = middle;
    }
    range.last = found;
  }
  return range;
}

// A bin's pixels along one axis, by rising number, with the sums of its samples' weights:
//
//     BinPixels<Acc> pixels = bin_pixels(axis, bin);
//     while (next_pixel(axis, &pixels)) use(pixels.pixel, pixels.weight);
template <class Acc>
struct BinPixels {
  int32_t pixel;
  Acc weight;

  // What is left: samples from `sample` on, the first with `taps`. Before them come pixel `low`,
  // with its sum so far, and its upper neighbour, with its own.
  int32_t bin, low;
  uint32_t sample, last;
  RoiTaps<Acc> taps;
  Acc low_sum, high_sum;
  bool has_pixel;
};

template <class Acc>
VISOPS_FN void load_taps(const RoiAxis<Acc>& axis, BinPixels<Acc>* p) {
  if (p->sample < p->last) p->taps = roi_taps(sample_at(axis, p->bin, p->sample), axis.extent);
}

template <class Acc>
VISOPS_FN void begin_at_sample(BinPixels<Acc>* p) {
  p->has_pixel = p->sample < p->last;
  p->low = p->taps.low;
  p->low_sum = p->high_sum = static_cast<Acc>(0);
}

template <class Acc>
VISOPS_FN BinPixels<Acc> bin_pixels(const RoiAxis<Acc>& axis, int32_t bin,
                                    const SampleRange& range) {
  BinPixels<Acc> p = {};
  p.bin = bin;
  p.sample = range.first;
  p.last = range.last;
  load_taps(axis, &p);
  begin_at_sample(&p);
  return p;
}

template <class Acc>
VISOPS_FN BinPixels<Acc> bin_pixels(const RoiAxis<Acc>& axis, int32_t bin) {
  return bin_pixels(axis, bin, samples_on_map(axis, bin));
}

template <class Acc>
VISOPS_FN bool next_pixel(const RoiAxis<Acc>& axis, BinPixels<Acc>* p) {
  while (p->has_pixel) {
    while (p->sample < p->last && p->taps.low == p->low) {
      p->low_sum += p->taps.low_weight;
      p->high_sum += p->taps.high_weight;
      ++p->sample;
      load_taps(axis, p);
    }
    p->pixel = p->low;
    p->weight = p->low_sum;
    if (p->high_sum != static_cast<Acc>(0)) {
      ++p->low;
      p->low_sum = p->high_sum;
      p->high_sum = static_cast<Acc>(0);
    } else {
      begin_at_sample(p);
    }
    if (p->weight != static_cast<Acc>(0)) return true;
  }
  return false;
}

// The mean's divisor as a factor; it is multiplied into w(r).
template <class Acc>
VISOPS_FN Acc mean_factor(const RoiAxis<Acc>& y, const RoiAxis<Acc>& x) {
  const Acc count = static_cast<Acc>(y.grid) * static_cast<Acc>(x.grid);
  return static_cast<Acc>(1) / (count < static_cast<Acc>(1) ? static_cast<Acc>(1) : count);
}

}  // namespace visops
