// How RoIAlign's means change with the sides of a box.
//
// NOTE [ Gradient of the boxes ]
// Along either axis sample i of a bin lies at  begin * scale - offset + u * (end - begin) * scale
// with  u = (bin + (i + 0.5) / grid) / bins,  so it moves by scale * (1 - u) with the box's begin
// and by scale * u with its end; where v1 takes a size below 1 as 1 (not aligned), it moves with
// the begin alone: u is 0. A sample that moves by 1 takes 1 of weight from its lower pixel to its
// upper one; it takes nothing before the first pixel's centre, from the last one's on, or off the
// map. As BinPixels sums samples' weights by pixel, BinSlopes sums these too, so that with
//
//     s = sum over rows r of  wr(r) * (sum over columns c of  wc(c) * map[r, c])
//
// the change of a mean with y1 is s with wr the rows' `by_begin` and wc the columns' `weight`, that
// with x2 has the rows' `weight` and the columns' `by_end`, and so on; the mean's divisor is in the
// rows' three numbers, `scale` is multiplied last.
//
// A box's gradient is a sum over rows of bins, channels and bins of a row. It has one order on
// every device: 32 lanes, channel c in lane c mod 32. For each row of bins a lane starts from 0 and
// adds grad * change, by rising channel and, within a channel, by rising bin, also where the change
// is 0; then it is added to the lane's total. At last lanes are halved as in NOTE [ Lane sums ]
// (core/lane_sum.h). For maxima (core/roi/max.h) it is the same, with their
// samples' slopes; bins without a sample add nothing.
#pragma once

#include "core/box.h"
#include "core/lane_sum.h"
#include "core/roi/align.h"

namespace visops {

// One pixel of a bin along one axis.
template <class Acc>
struct PixelSlope {
  int64_t pixel;
  Acc weight, by_begin, by_end;
};

// Whether a box's end moves samples: not where its size is taken as 1. At the very edge, where its
// size is 1, either answer would do.
template <class Acc>
VISOPS_FN bool end_moves(const RoiAxis<Acc>& axis, bool aligned) {
  return aligned || axis.bin > static_cast<Acc>(1) / static_cast<Acc>(axis.bins);
}

// How far along the box sample i of a bin lies, of 1: the u of the NOTE.
template <class Acc>
VISOPS_FN Acc part_of_box(const RoiAxis<Acc>& axis, int64_t bin, int64_t i, bool end_moves) {
  if (!end_moves) return static_cast<Acc>(0);
  const Acc within = (static_cast<Acc>(i) + static_cast<Acc>(0.5)) / static_cast<Acc>(axis.grid);
  return (static_cast<Acc>(bin) + within) / static_cast<Acc>(axis.bins);
}

// A bin's pixels along one axis, by rising number, as BinPixels:
//
//     BinSlopes<Acc> slopes = bin_slopes(axis, bin, end_moves(axis, p.aligned));
//     while (next_slope(axis, &slopes)) use(slopes.slope);
template <class Acc>
struct BinSlopes {
  PixelSlope<Acc> slope;

  // What is to come: samples from `sample` on, whose first one has `taps`; before them pixel
  // `low.pixel` with the sums so far, and its upper neighbour with its own.
  int64_t bin, sample, last;
  RoiTaps<Acc> taps;
  PixelSlope<Acc> low, high;
  bool end_moves, has_pixel;
};

template <class Acc>
VISOPS_FN bool is_zero(const PixelSlope<Acc>& s) {
  const Acc zero = static_cast<Acc>(0);
  return s.weight == zero && s.by_begin == zero && s.by_end == zero;
}

template <class Acc>
VISOPS_FN void load_taps(const RoiAxis<Acc>& axis, BinSlopes<Acc>* p) {
  if (p->sample < p->last) p->taps = roi_taps(sample_at(axis, p->bin, p->sample), axis.extent);
}

template <class Acc>
VISOPS_FN void begin_at_sample(BinSlopes<Acc>* p) {
  p->has_pixel = p->sample < p->last;
  p->low = p->high = PixelSlope<Acc>{};
  p->low.pixel = p->taps.low;
}

template <class Acc>
VISOPS_FN BinSlopes<Acc> bin_slopes(const RoiAxis<Acc>& axis, int64_t bin, bool end_moves) {
  const SampleRange range = samples_on_map(axis, bin);
  BinSlopes<Acc> p = {};
  p.bin = bin;
  p.sample = range.first;
  p.last = range.last;
  p.end_moves = end_moves;
  load_taps(axis, &p);
  begin_at_sample(&p);
  return p;
}

// Of sample p->sample, with p->taps.
template <class Acc>
VISOPS_FN void add_sample(const RoiAxis<Acc>& axis, BinSlopes<Acc>* p) {
  p->low.weight += p->taps.low_weight;
  p->high.weight += p->taps.high_weight;
  if (!p->taps.moves) return;
  const Acc u = part_of_box(axis, p->bin, p->sample, p->end_moves);
  const Acc rest = static_cast<Acc>(1) - u;
  p->low.by_begin -= rest;
  p->low.by_end -= u;
  p->high.by_begin += rest;
  p->high.by_end += u;
}

template <class Acc>
VISOPS_FN bool next_slope(const RoiAxis<Acc>& axis, BinSlopes<Acc>* p) {
  while (p->has_pixel) {
    while (p->sample < p->last && p->taps.low == p->low.pixel) {
      add_sample(axis, p);
      ++p->sample;
      load_taps(axis, p);
    }
    p->slope = p->low;
    if (is_zero(p->high)) {
      begin_at_sample(p);
    } else {
      p->high.pixel = p->low.pixel + 1;
      p->low = p->high;
      p->high = PixelSlope<Acc>{};
    }
    if (!is_zero(p->slope)) return true;
  }
  return false;
}

// A row's numbers with the mean's divisor (mean_factor) in them.
template <class Acc>
VISOPS_FN PixelSlope<Acc> with_factor(const PixelSlope<Acc>& row, Acc factor) {
  return {row.pixel, row.weight * factor, row.by_begin * factor, row.by_end * factor};
}

// To the sums of one row, each from 0; columns by rising pixel. V: Acc, or a vector of them.
template <class V, class Acc>
VISOPS_HOT_FN void add_column(const PixelSlope<Acc>& column, const V& pixel, V* weight, V* by_begin,
                              V* by_end) {
  *weight = *weight + V(column.weight) * pixel;
  *by_begin = *by_begin + V(column.by_begin) * pixel;
  *by_end = *by_end + V(column.by_end) * pixel;
}

// To how one mean changes, each from 0; rows by rising pixel, each with its sums of columns.
template <class V, class Acc>
VISOPS_HOT_FN void add_row(const PixelSlope<Acc>& row, const V& weight, const V& by_begin,
                           const V& by_end, V* x1, V* y1, V* x2, V* y2) {
  *x1 = *x1 + V(row.weight) * by_begin;
  *y1 = *y1 + V(row.by_begin) * weight;
  *x2 = *x2 + V(row.weight) * by_end;
  *y2 = *y2 + V(row.by_end) * weight;
}

// Writes the gradient of box k from its sums x1, y1, x2, y2. Zeros are for boxes not valid.
template <class Acc>
VISOPS_FN void store_box_gradient(const RoiAlignParams& p, int64_t k, Acc scale, const Acc* sums) {
  store_rounded(p.grad_boxes, p.grad_boxes_dtype, k * 5, 0.0);
  for (int i = 0; i < 4; ++i) {
    store_rounded(p.grad_boxes, p.grad_boxes_dtype, k * 5 + 1 + i,
                  static_cast<double>(sums[i] * scale));
  }
}

}  // namespace visops
