// The gradient of the rows of a deformable convolution on CUDA: NOTE [ Gradients of a deformable
// convolution ] (core/deformable/conv2d.h).
#pragma once

#include "cuda/deformable/conv2d_weights.h"
#include "cuda/matrix_tile.h"

namespace visops {
namespace {

// A part of the rows' gradient: output pixels [first, first + count) of all images, and the
// channels of a run, which share a group and an offset group. It is [count, taps, channels].
struct RowPart {
  int64_t first, count;
  int64_t channel, channels;
  void* data;

  VISOPS_DEVICE int64_t row(const DeformConvParams& p) const { return p.taps() * channels; }
};

// Runs of up to `most` channels, in order: f(channel, channels).
template <class F>
void for_channel_runs(const DeformConvParams& p, int64_t most, const F& f) {
  for (int64_t c = 0; c < p.channels;) {
    const int64_t run = p.run_end(c), end = c + most < run ? c + most : run;
    f(c, end - c);
    c = end;
  }
}

template <class T>
struct RowGradientProblem {
  using Acc = typename Accumulate<T>::type;
  static constexpr bool kSharesPositions = false;

  const DeformConvParams& p;
  const T* weights;  // transposed
  const RowPart& part;
  int64_t group;
  int64_t rows, columns, depth;

  struct Column {
    bool inside;
    int64_t at;  // the weight's element, for the group's first output channel
  };

  __device__ int64_t row(int64_t m) const { return m; }
  __device__ Acc start(int64_t) const { return Acc{}; }
  __device__ Column column(int64_t j) const {
    const int64_t tap = j / part.channels, ins = p.group_channels();
    const int64_t channel = part.channel - group * ins + j - tap * part.channels;
    return {j < columns, (group * depth * p.taps() + tap) * ins + channel};
  }
  __device__ int64_t at(int64_t k) const { return k; }
  __device__ void go_on(int64_t* k, int count) const { *k += count; }
  __device__ Acc left(int64_t m, int64_t k) const {
    if (m >= rows) return Acc{};
    return static_cast<const Acc*>(p.grad)[(part.first + m) * p.out_channels + group * depth + k];
  }
  __device__ Acc right(int64_t k, const Column& column) const {
    if (!column.inside) return Acc{};
    return load_element(weights + column.at + k * p.group_channels() * p.taps());
  }
  __device__ int64_t result(int64_t j) const { return j; }
  __device__ void store(int64_t m, int64_t j, Acc value) const {
    if (m < rows && j < columns) static_cast<Acc*>(part.data)[m * columns + j] = value;
  }
};

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    deform_conv2d_row_gradients(const __grid_constant__ DeformConvParams p, const T* const weights,
                                const __grid_constant__ RowPart part, const int64_t column_tiles,
                                const int64_t tiles) {
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t row_tile = tile / column_tiles;
    const RowGradientProblem<T> problem = {
        p,           weights,          part, part.channel / p.group_channels(), part.count,
        part.row(p), p.group_outputs()};
    multiply_tile<typename Accumulate<T>::type, true>(problem, row_tile * kTileSide,
                                                      (tile - row_tile * column_tiles) * kTileSide);
  }
}

template <class T>
void compute_row_gradients(const DeformConvParams& p, const T* weights, const RowPart& part,
                           void* stream) {
  const int64_t column_tiles = parts_of(part.row(p), kTileSide);
  const int64_t tiles = column_tiles * parts_of(part.count, kTileSide);
  launch(deform_conv2d_row_gradients<T>, grid_for(tiles), dim3(kTileThreads), 0, stream, p, weights,
         part, column_tiles, tiles);
}

}  // namespace
}  // namespace visops
