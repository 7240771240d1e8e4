// How RoIAlign's means change with a box's sides.
//
// NOTE [ Gradient of the boxes ]
// Along either axis sample i of a bin lies at  begin * scale - offset + u * (end - begin) * scale
// with  u = (bin + (i + 0.5) / grid) / bins,  so it moves by scale * (1 - u) with the box's begin
// and by scale * u with its end. A size below 1 counts as 1 unless `aligned`; samples then move
// with the begin alone, and u is 0. A sample that moves by 1 moves a weight of 1 from its lower
// pixel to its upper one; it moves none before the first pixel's centre, from the last one's on, or
// off the map. BinPixels sums samples' weights by pixel, and BinSlopes sums these changes too, so
// that with
//
//     s = sum over rows r of  wr(r) * (sum over columns c of  wc(c) * map[r, c])
//
// a mean's change with y1 is s where wr is the rows' `by_begin` and wc the columns' `weight`; its
// change with x2 takes the rows' `weight` and the columns' `by_end`, and so on. The rows' three
// numbers include the mean's divisor; `scale` is multiplied last.
//
// A box's gradient is a sum over rows of bins, channels, and the bins of a row. Its order is the
// same on every device: 32 lanes, channel c in lane c mod 32. For each row of bins a lane starts
// from 0 and adds grad * change, by rising channel and within a channel by rising bin, changes of 0
// included; the result is added to the lane's total. Finally the lanes are halved as in NOTE [ Lane
// sums ] (core/numbers/lane_sum.h). Maxima (core/roi/pool.h) use their samples' slopes in the same
// order; bins without a sample add nothing.
#pragma once

#include "core/box.h"
#include "core/numbers/lane_sum.h"
#include "core/roi/align.h"

namespace visops {

// One pixel of a bin along one axis.
template <class Acc>
struct PixelSlope {
  int32_t pixel;
  Acc weight, by_begin, by_end;
};

// Whether a box's end moves its samples: not if its size counts as 1. For a size of exactly 1
// either answer would do.
template <class Acc>
VISOPS_FN bool end_moves(const RoiAxis<Acc>& axis, bool aligned) {
  return aligned || axis.bin > static_cast<Acc>(1) / static_cast<Acc>(axis.bins);
}

// How far along the box sample i of a bin lies, from 0 to 1: u in the NOTE.
template <class Acc>
VISOPS_FN Acc part_of_box(const RoiAxis<Acc>& axis, int32_t bin, uint32_t i, bool end_moves) {
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

  // What is left: samples from `sample` on, the first with `taps`. Before them come pixel
  // `low.pixel`, with its sums so far, and its upper neighbour, with its own.
  int32_t bin;
  uint32_t sample, last;
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
VISOPS_FN BinSlopes<Acc> bin_slopes(const RoiAxis<Acc>& axis, int32_t bin, const SampleRange& range,
                                    bool end_moves) {
  BinSlopes<Acc> p = {};
  p.bin = bin;
  p.sample = range.first;
  p.last = range.last;
  p.end_moves = end_moves;
  load_taps(axis, &p);
  begin_at_sample(&p);
  return p;
}

template <class Acc>
VISOPS_FN BinSlopes<Acc> bin_slopes(const RoiAxis<Acc>& axis, int32_t bin, bool end_moves) {
  return bin_slopes(axis, bin, samples_on_map(axis, bin), end_moves);
}

// Adds sample p->sample, which has p->taps.
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

// A row's numbers times the mean's divisor (mean_factor).
template <class Acc>
VISOPS_FN PixelSlope<Acc> with_factor(const PixelSlope<Acc>& row, Acc factor) {
  return {row.pixel, row.weight * factor, row.by_begin * factor, row.by_end * factor};
}

// Adds a column to the sums of one row, which start from 0; columns by rising pixel. V: Acc, or a
// vector.
template <class V, class Acc>
VISOPS_HOT_FN void add_column(const PixelSlope<Acc>& column, const V& pixel, V* weight, V* by_begin,
                              V* by_end) {
  *weight = *weight + V(column.weight) * pixel;
  *by_begin = *by_begin + V(column.by_begin) * pixel;
  *by_end = *by_end + V(column.by_end) * pixel;
}

// Adds a row, with its sums of columns, to the changes of one mean, which start from 0; rows by
// rising pixel.
template <class V, class Acc>
VISOPS_HOT_FN void add_row(const PixelSlope<Acc>& row, const V& weight, const V& by_begin,
                           const V& by_end, V* x1, V* y1, V* x2, V* y2) {
  *x1 = *x1 + V(row.weight) * by_begin;
  *y1 = *y1 + V(row.by_begin) * weight;
  *x2 = *x2 + V(row.weight) * by_end;
  *y2 = *y2 + V(row.by_end) * weight;
}

// Writes box k's gradient, given its sums x1, y1, x2, y2; all 0 for a box that is not valid.
template <class Acc>
VISOPS_FN void store_box_gradient(const RoiAlignParams& p, int64_t k, Acc scale, const Acc* sums) {
  store_rounded(p.grad_boxes, p.grad_boxes_dtype, k * 5, 0.0);
  for (int i = 0; i < 4; ++i) {
    store_rounded(p.grad_boxes, p.grad_boxes_dtype, k * 5 + 1 + i,
                  static_cast<double>(sums[i] * scale));
  }
}

}  // namespace visops
