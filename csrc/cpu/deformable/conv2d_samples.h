// The samples of a block of output pixels, placed before any channel is read: NOTE [ Samples of a
// deformable convolution ] (core/deformable/conv2d.h) as loops that vectorise over pixels.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/deformable/conv2d.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "cpu/deformable/taps.h"
#include "cpu/gemm.h"

namespace visops {
namespace {

// A product of matrices in memory, added to a third one.

// A matrix whose elements lie row and column steps apart.
template <class T>
struct GemmFactor {
  const T* data;
  int64_t row_step, column_step;
};

// Depth of a product that is summed in registers before it is added to the result: so many rows of
// b, as wide as a tile, fit the first-level cache.
constexpr int64_t kGemmDepth = 128;

// to[m][j] += sum over k < depth of a[m][k] * b[k][j]; rows of b and `to` are adjacent elements.
template <class T, int rows, int vectors>
VISOPS_GEMM void gemm_add(GemmFactor<T> a, const T* b, int64_t b_row, int64_t depth, T* to,
                          int64_t to_row) {
  constexpr int kCount = Vector<T>::kCount;
  Vector<T> sum[rows][vectors];
  VISOPS_UNROLL
  for (int m = 0; m < rows; ++m) {
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) sum[m][v] = broadcast(T{});
  }
  const T* column = a.data;
  for (int64_t k = 0; k < depth; ++k) {
    Vector<T> x[vectors];
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) x[v] = load_vector(b + v * kCount);
    VISOPS_UNROLL
    for (int m = 0; m < rows; ++m) {
      const Vector<T> factor = broadcast(column[m * a.row_step]);
      VISOPS_UNROLL
      for (int v = 0; v < vectors; ++v) sum[m][v] = gemm_multiply_add(factor, x[v], sum[m][v]);
    }
    column += a.column_step;
    b += b_row;
  }
  VISOPS_UNROLL
  for (int m = 0; m < rows; ++m) {
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) {
      T* at = to + m * to_row + v * kCount;
      store_vector(at, load_vector(at) + sum[m][v]);
    }
  }
}

template <class T>
using GemmAdd = void (*)(GemmFactor<T>, const T*, int64_t, int64_t, T*, int64_t);

template <class T, int rows>
GemmAdd<T> gemm_add_of_rows(int vectors) {
  if (vectors == 1) return gemm_add<T, rows, 1>;
  if (vectors == 2 || kGemmVectors == 2) return gemm_add<T, rows, 2>;
  return gemm_add<T, rows, kGemmVectors>;
}

template <class T>
GemmAdd<T> gemm_add_of(int rows, int vectors) {
  if (rows == 1) return gemm_add_of_rows<T, 1>(vectors);
  if (rows == 2) return gemm_add_of_rows<T, 2>(vectors);
  if (rows == 4) return gemm_add_of_rows<T, 4>(vectors);
  return gemm_add_of_rows<T, kGemmRows>(vectors);
}

// Elements of rows of b and of the result, which are whole vectors.
template <class T>
int64_t gemm_width(int64_t columns) {
  constexpr int64_t kCount = Vector<T>::kCount;
  return (columns + kCount - 1) / kCount * kCount;
}

// to += a b, of any size. Up to gemm_width(columns) elements of rows of b are read, and of `to`
// changed. Each element is summed in blocks of kGemmDepth, which are added in order.
template <class T>
void gemm_add_product(GemmFactor<T> a, const T* b, int64_t b_row, int64_t rows, int64_t columns,
                      int64_t depth, T* to, int64_t to_row) {
  constexpr int kCount = Vector<T>::kCount;
  const int64_t width = gemm_width<T>(columns);
  for (int64_t k = 0; k < depth; k += kGemmDepth) {
    const int64_t deep = depth - k < kGemmDepth ? depth - k : kGemmDepth;
    for (int64_t j = 0; j < width;) {
      const int64_t left = (width - j) / kCount;
      const int vectors = left < kGemmVectors ? static_cast<int>(left) : kGemmVectors;
      for (int64_t m = 0; m < rows;) {
        int strip = gemm_strip(rows - m);
        while (strip > rows - m) strip /= 2;  // no row too many: there is nothing to read
        const GemmFactor<T> part = {a.data + m * a.row_step + k * a.column_step, a.row_step,
                                    a.column_step};
        gemm_add_of<T>(strip, vectors)(part, b + k * b_row + j, b_row, deep, to + m * to_row + j,
                                       to_row);
        m += strip;
      }
      j += vectors * kCount;
    }
  }
}

// Up to kBlockPixels adjacent output pixels of an image.
struct PixelBlock {
  int64_t image, first, count;
  int64_t row[kBlockPixels], column[kBlockPixels];  // in the output
};

// `first` lies in the image.
inline void fill_block(const DeformConvParams& p, int64_t image, int64_t first, int64_t most,
                       PixelBlock* block) {
  const int64_t left = p.pixels() - first, count = left < most ? left : most;
  block->image = image;
  block->first = first;
  block->count = count;
  int64_t row = first / p.x.output, column = first - row * p.x.output;
  for (int64_t i = 0; i < count; ++i) {
    block->row[i] = row;
    block->column[i] = column;
    if (++column == p.x.output) column = 0, ++row;
  }
}

// The samples of a block's pixels for one tap and offset group.
template <class Acc>
struct BlockSamples {
  int32_t taps[kBlockPixels];                // 0 where a sample doesn't count
  int32_t y[kBlockPixels], x[kBlockPixels];  // of the tap 00, which may not exist
  Acc fy[kBlockPixels], fx[kBlockPixels], mask[kBlockPixels];
  Acc weight[4][kBlockPixels];
};

// The element of the mask where a tap's pixels begin; twice that for the offset.
inline int64_t samples_at(const DeformConvParams& p, int64_t image, int64_t offset_group,
                          int64_t tap) {
  return ((image * p.offset_groups + offset_group) * p.taps() + tap) * p.pixels();
}

template <class Acc>
void locate_block(const DeformConvParams& p, const PixelBlock& block, int64_t offset_group,
                  int64_t tap, BlockSamples<Acc>* VISOPS_RESTRICT s) {
  const int64_t at = samples_at(p, block.image, offset_group, tap), count = block.count;
  const Acc* VISOPS_RESTRICT offset_y = static_cast<const Acc*>(p.offset) + 2 * at + block.first;
  const Acc* VISOPS_RESTRICT offset_x = offset_y + p.pixels();
  const int64_t v = tap / p.x.kernel, u = tap - v * p.x.kernel;
  const int32_t height = static_cast<int32_t>(p.y.input), width = static_cast<int32_t>(p.x.input);
  if (p.mask != nullptr) {
    const Acc* mask = static_cast<const Acc*>(p.mask) + at + block.first;
    for (int64_t i = 0; i < count; ++i) s->mask[i] = mask[i];
  } else {
    for (int64_t i = 0; i < count; ++i) s->mask[i] = static_cast<Acc>(1);
  }
  Acc y[kBlockPixels], x[kBlockPixels];
  for (int64_t i = 0; i < count; ++i) {
    y[i] = static_cast<Acc>(p.y.position(block.row[i], v));
    x[i] = static_cast<Acc>(p.x.position(block.column[i], u));
  }
  for (int64_t i = 0; i < count; ++i) {
    const BilinearSample<Acc> position =
        bilinear_sample_at(x[i] + offset_x[i], y[i] + offset_y[i], height, width);
    Acc weight[4];
    bilinear_weights(position, s->mask[i], weight);
    s->y[i] = position.y;
    s->x[i] = position.x;
    s->fy[i] = position.fy;
    s->fx[i] = position.fx;
    s->taps[i] = position.taps;
    s->weight[0][i] = weight[0];  // not a loop, so that this one is vectorised
    s->weight[1][i] = weight[1];
    s->weight[2][i] = weight[2];
    s->weight[3][i] = weight[3];
  }
}

// Channels [channel, channel + channels) of the block's samples, to rows `row` apart.
template <class T, class Acc>
void sample_block(const DeformConvParams& p, const PixelBlock& block, const BlockSamples<Acc>& s,
                  int64_t channel, int64_t channels, const T* zeros, Acc* to, int64_t row) {
  const T* image = static_cast<const T*>(p.input) + block.image * p.input_batch + channel;
  for (int64_t i = 0; i < block.count; ++i, to += row) {
    if (s.taps[i] == 0) {
      for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<Acc>(0);
      continue;
    }
    const T* tap[4];
    const T* first = image + s.y[i] * p.input_row + s.x[i] * p.input_column;
    find_taps(s.taps[i], first, p.input_column, p.input_row, zeros, tap);
    const Part<Acc> w00 = repeated(s.weight[0][i]), w01 = repeated(s.weight[1][i]);
    const Part<Acc> w10 = repeated(s.weight[2][i]), w11 = repeated(s.weight[3][i]);
    const int64_t rest = for_parts<Acc>(channels, [&](auto parts, int64_t c) {
      for (int n = 0; n < parts; ++n) {
        const int64_t at = c + n * kPartCount<Acc>;
        const Part<Acc> top = w00 * load_part(tap[0] + at) + w01 * load_part(tap[1] + at);
        const Part<Acc> bottom = w10 * load_part(tap[2] + at) + w11 * load_part(tap[3] + at);
        store_part(to + at, top + bottom);
      }
    });
    for (int64_t c = rest; c < channels; ++c) {
      const Acc top =
          s.weight[0][i] * load_element(tap[0] + c) + s.weight[1][i] * load_element(tap[1] + c);
      const Acc bottom =
          s.weight[2][i] * load_element(tap[2] + c) + s.weight[3][i] * load_element(tap[3] + c);
      to[c] = top + bottom;
    }
  }
}

// f(channel, end, places) for the runs of channels [begin, end): those of one offset group.
template <class F>
VISOPS_ALWAYS_INLINE void for_runs(const DeformConvParams& p, int64_t begin, int64_t end,
                                   const F& f) {
  while (begin < end) {
    const int64_t run = p.run_end(begin), last = run < end ? run : end;
    f(begin, last, begin / p.offset_channels());
    begin = last;
  }
}

// The block's rows for taps [first_tap, last_tap) and channels [channel, channel + channels) of one
// group: sample (tap, c) of pixel i is at to[i * row + (tap - first_tap) * channels + c - channel].
template <class T, class Acc>
void fill_rows(const DeformConvParams& p, const PixelBlock& block, int64_t first_tap,
               int64_t last_tap, int64_t channel, int64_t channels, const T* zeros, Acc* to,
               int64_t row) {
  BlockSamples<Acc> samples;
  for (int64_t tap = first_tap; tap < last_tap; ++tap, to += channels) {
    for_runs(p, channel, channel + channels, [&](int64_t begin, int64_t end, int64_t offset_group) {
      locate_block(p, block, offset_group, tap, &samples);
      sample_block(p, block, samples, begin, end - begin, zeros, to + (begin - channel), row);
    });
  }
}

// Elements from one row of a matrix to the next: whole vectors, and an odd number of cache lines,
// so that the rows that a product reads side by side don't share the same places of a cache.
template <class Acc>
int64_t row_elements(int64_t columns) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Acc));
  const int64_t lines = (columns + kLine - 1) / kLine;
  return (lines | 1) * kLine;
}

// As many zeros as an image has channels.
template <class T>
const T* zero_channels(const DeformConvParams& p, Workspace& workspace) {
  T* zeros = allocate<T>(workspace, p.channels);
  memset(zeros, 0, static_cast<size_t>(p.channels) * sizeof(T));
  return zeros;
}

// How the channels of a deformable convolution are divided.

// Channels that share a group and an offset group, or a part of them.
struct ChannelRun {
  int64_t first, count;
};

struct ChannelRuns {
  ChannelRun* run;
  int64_t count;
};

// All channels in runs of up to `most`.
inline ChannelRuns channel_runs(const DeformConvParams& p, int64_t most, Workspace& workspace) {
  ChannelRuns runs = {nullptr, 0};
  for (int pass = 0; pass < 2; ++pass) {
    int64_t count = 0;
    for (int64_t c = 0; c < p.channels; ++count) {
      const int64_t run = p.run_end(c), end = c + most < run ? c + most : run;
      if (pass == 1) runs.run[count] = {c, end - c};
      c = end;
    }
    runs.count = count;
    if (pass == 0) runs.run = allocate<ChannelRun>(workspace, count);
  }
  return runs;
}

// The gradient of the rows of a deformable convolution: NOTE [ Gradients of a deformable
// convolution ] (core/deformable/conv2d.h).

// Weights by run: for each output channel of the group, a row with the run's channels of each tap.
template <class T>
class RowGradients {
 public:
  using Acc = typename Accumulate<T>::type;

  RowGradients(const DeformConvParams& p, const ChannelRuns& runs, Workspace& workspace)
      : p_(p), runs_(runs), at_(allocate<int64_t>(workspace, runs.count + 1)) {
    at_[0] = 0;
    for (int64_t r = 0; r < runs.count; ++r) at_[r + 1] = at_[r] + p.group_outputs() * row(r);
    packed_ = allocate<Acc>(workspace, at_[runs.count]);
    parallel_for(workspace, runs.count * p.group_outputs(), 1,
                 [&](int64_t begin, int64_t end) { pack(begin, end); });
  }

  // Elements of a run's row; what follows a tap may be read up to a whole vector.
  int64_t row(int64_t run) const {
    return row_elements<Acc>(p_.taps() * runs_.run[run].count + Vector<Acc>::kCount);
  }
  // The same of the rows' gradient for some taps.
  int64_t row_of(int64_t run, int64_t taps) const {
    return row_elements<Acc>(taps * runs_.run[run].count + Vector<Acc>::kCount);
  }

  // The gradient of a block's rows, for a run and taps [first_tap, last_tap).
  void compute(const PixelBlock& block, int64_t run, int64_t first_tap, int64_t last_tap,
               Acc* to) const {
    const ChannelRun& channels = runs_.run[run];
    const int64_t outs = p_.group_outputs(), group = channels.first / p_.group_channels();
    const int64_t to_row = row_of(run, last_tap - first_tap);
    const Acc* grad = static_cast<const Acc*>(p_.grad) +
                      (block.image * p_.pixels() + block.first) * p_.out_channels + group * outs;
    memset(to, 0, static_cast<size_t>(block.count * to_row) * sizeof(Acc));
    gemm_add_product<Acc>({grad, p_.out_channels, 1},
                          packed_ + at_[run] + first_tap * channels.count, row(run), block.count,
                          (last_tap - first_tap) * channels.count, outs, to, to_row);
  }

 private:
  void pack(int64_t begin, int64_t end) const {
    const int64_t outs = p_.group_outputs(), ins = p_.group_channels(), taps = p_.taps();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t run = i / outs, m = i - run * outs;
      const ChannelRun& channels = runs_.run[run];
      const int64_t group = channels.first / ins, c = channels.first - group * ins;
      const T* from = static_cast<const T*>(p_.weight) + ((group * outs + m) * ins + c) * taps;
      Acc* to = packed_ + at_[run] + m * row(run);
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t k = 0; k < channels.count; ++k) *to++ = load_element(from + k * taps + tap);
      }
      Acc* last = packed_ + at_[run] + (m + 1) * row(run);
      while (to < last) *to++ = static_cast<Acc>(0);
    }
  }

  const DeformConvParams& p_;
  ChannelRuns runs_;
  int64_t* at_;  // where each run's weights begin
  Acc* packed_;
};

}  // namespace
}  // namespace visops
