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
  Acc start, bin;      // of the region, and the length of a bin, in pixels
  int64_t bins, grid;  // bins, and samples in each
  int64_t extent;      // pixels of the map
};

// A bin with more samples has them more than a pixel apart; no map is that large.
constexpr int64_t kMostGrid = int64_t{1} << 31;

// From `begin` to `end` in the boxes' units. `sampling_ratio` <= 0: about one sample per pixel.
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
  axis.bins = bins;
  const Acc most = static_cast<Acc>(kMostGrid);
  axis.grid = sampling_ratio > 0 ? sampling_ratio
                                 : static_cast<int64_t>(axis.bin < most ? ceil(axis.bin) : most);
  axis.extent = extent;
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
VISOPS_FN Acc sample_at(const RoiAxis<Acc>& axis, int64_t bin, int64_t i) {
  return axis.start + static_cast<Acc>(bin) * axis.bin +
         (static_cast<Acc>(i) + static_cast<Acc>(0.5)) * axis.bin / static_cast<Acc>(axis.grid);
}

// Whether a sample counts: up to a pixel outside the map's outermost centres.
template <class Acc>
VISOPS_FN bool is_on_map(Acc at, int64_t extent) {
  return at >= static_cast<Acc>(-1) && at <= static_cast<Acc>(extent);
}

// The two pixels beside a sample on the map; at the far border they are the same.
template <class Acc>
struct RoiTaps {
  int64_t low, high;
  Acc low_weight, high_weight;
  bool moves;  // whether the weights change with the sample's place
};

template <class Acc>
VISOPS_FN RoiTaps<Acc> roi_taps(Acc at, int64_t extent) {
  RoiTaps<Acc> taps;
  taps.moves = at > static_cast<Acc>(0);
  if (!taps.moves) at = static_cast<Acc>(0);
  taps.low = static_cast<int64_t>(at);
  taps.high = taps.low + 1;
  if (taps.low >= extent - 1) {
    taps.low = taps.high = extent - 1;
    at = static_cast<Acc>(taps.low);
    taps.moves = false;
  }
  taps.high_weight = at - static_cast<Acc>(taps.low);
  taps.low_weight = static_cast<Acc>(1) - taps.high_weight;
  return taps;
}

// A bin's samples on the map: first <= i < last.
struct SampleRange {
  int64_t first, last;
};

template <class Acc>
VISOPS_FN SampleRange samples_on_map(const RoiAxis<Acc>& axis, int64_t bin) {
  SampleRange range = {0, axis.grid};
  if (axis.grid == 0) return range;
  const Acc low = static_cast<Acc>(-1), high = static_cast<Acc>(axis.extent);
  if (sample_at(axis, bin, 0) < low) {
    int64_t outside = 0, found = axis.grid;  // sample `found` is inside or the end
    while (found - outside > 1) {
      const int64_t middle = outside + (found - outside) / 2;
      (sample_at(axis, bin, middle) < low ? outside : found) = middle;
    }
    range.first = found;
  }
  if (range.first < range.last && sample_at(axis, bin, axis.grid - 1) > high) {
    int64_t inside = range.first - 1, found = axis.grid - 1;  // sample `found` is outside
    while (found - inside > 1) {
      const int64_t middle = inside + (found - inside) / 2;
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
  int64_t pixel;
  Acc weight;

  // What is left: samples from `sample` on, the first with `taps`. Before them come pixel `low`,
  // with its sum so far, and its upper neighbour, with its own.
  int64_t bin, sample, last, low;
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
VISOPS_FN BinPixels<Acc> bin_pixels(const RoiAxis<Acc>& axis, int64_t bin) {
  const SampleRange range = samples_on_map(axis, bin);
  BinPixels<Acc> p = {};
  p.bin = bin;
  p.sample = range.first;
  p.last = range.last;
  load_taps(axis, &p);
  begin_at_sample(&p);
  return p;
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
