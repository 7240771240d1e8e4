// NOTE [ Gradient of values on CUDA ]
// A sample lies in a cell: the four pixels around it, of which some may be outside the map. A level
// of height x width has (height + 1) x (width + 1) cells; "discrete" uses those whose first pixel
// is the one that is read. The front lets torch sort samples by cell, stably, so the samples of a
// cell rise by query. A warp has one pixel and head, and lane l channels l, l + 32, ... The pixel
// is read from four cells; the warp finds their samples by binary search and merges the four lists
// by index. So it adds in the CPU's order, without atomics, and writes each gradient once.
//
// Rounding: NOTE [ Gradients of deformable attention ] (core/deformable/attention.h), without
// contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/attention_samples.h"
#include "cuda/deformable/cell_lists.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;

// The number of cell (y, x) of a level among all cells; `plane` counts images and heads.
__device__ inline int64_t cell_number(const Levels& levels, const LevelAt& level, int64_t plane,
                                      int64_t y, int64_t x) {
  return plane * levels.cells + level.first_cell + y * (level.width + int64_t{1}) + x;
}

template <class Acc, bool is_discrete>
__global__ void __launch_bounds__(kThreads)
    attention_cells(const __grid_constant__ AttentionParams p, const int64_t count) {
  __shared__ Levels levels;
  load_levels(p, &levels);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t row = i / p.samples, image = row / p.heads / p.queries;
    const LevelAt& level = level_of_sample(levels, i - row * p.samples);
    const BilinearSample<Acc> bilinear = located_sample<is_discrete, Acc>(p, level, i).bilinear;
    const int64_t plane = image * p.heads + row % p.heads;
    const int last = is_discrete ? 0 : 1;  // cells begin one pixel before the map
    p.cells[i] = bilinear.taps == 0
                     ? kNoCell
                     : cell_number(levels, level, plane, bilinear.y + last, bilinear.x + last);
  }
}

// Lists are indexed by constants only, or they would not stay in registers.
template <class T, bool is_discrete, int kCells>
__device__ typename Accumulate<T>::type sum_lists(const AttentionParams& p,
                                                  const SortedSamples& samples,
                                                  const LevelAt& level,
                                                  CellSamples (&lists)[kCells], int64_t channel) {
  using Acc = typename Accumulate<T>::type;
  Acc sum = 0;
  while (true) {
    const int64_t i = next_sample(lists);
    if (i == INT64_MAX) return sum;
    const LocatedSample<Acc> s = located_sample<is_discrete, Acc>(p, level, i);
    Acc weights[4], weight = 0;
    tap_weights<is_discrete>(s.bilinear, s.attention, weights);
#pragma unroll
    for (int k = 0; k < kCells; ++k) {
      if (lists[k].sample != i) continue;  // a sample is in one cell
      weight = weights[kCells - 1 - k];
      ++lists[k].next;
      load_sample(samples, &lists[k]);
    }
    if (channel < p.channels) {
      const T* grad = static_cast<const T*>(p.grad) + i / p.samples * p.channels;
      sum += weight * load_element(grad + channel);
    }
  }
}

template <class T, bool is_discrete>
__global__ void __launch_bounds__(kThreads)
    attention_sum_cells(const __grid_constant__ AttentionParams p, const int64_t count) {
  using Acc = typename Accumulate<T>::type;
  constexpr int kCells = is_discrete ? 1 : 4;
  __shared__ Levels levels;
  load_levels(p, &levels);
  const SortedSamples samples = {p.sorted_cells, p.order, count};
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t rows = p.batch * p.positions * p.heads, step = int64_t{gridDim.x} * kWarps;
  int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  for (; row < rows; row += step) {
    const int64_t head = row % p.heads, image = row / p.heads / p.positions;
    const int64_t position = row / p.heads - image * p.positions;
    int64_t l = 0;
    while (l < p.levels && position >= levels.at[l].start + area_of(levels.at[l])) ++l;
    const LevelAt& level = levels.at[l < p.levels ? l : 0];
    Acc* out = static_cast<Acc*>(p.grad_value) + row * p.channels;
    for (int64_t first = 0; first < p.channels; first += kWarpLanes) {
      Acc sum = 0;
      if (l < p.levels) {
        const int64_t pixel = position - level.start, y = pixel / level.width;
        const int64_t cell =
            cell_number(levels, level, image * p.heads + head, y, pixel - y * level.width);
        // Searched again for more channels: two copies of the lists would take too many registers.
        CellSamples lists[kCells];
        find_samples<kCells>(samples, cell, level.width + int64_t{1}, lane, lists);
        sum = sum_lists<T, is_discrete>(p, samples, level, lists, first + lane);
      }
      if (first + lane < p.channels) out[first + lane] = sum;
    }
  }
}

void backward_value_cuda(const AttentionParams& p, Workspace& workspace) {
  const int64_t count = p.batch * p.queries * p.heads * p.samples;
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    if (p.order == nullptr) {
      using Acc = typename Accumulate<T>::type;
      launch(attention_cells<Acc, is_discrete>, grid_for(parts_of(count, kThreads)), dim3(kThreads),
             0, workspace.stream(), p, count);
      return;
    }
    const int64_t blocks = parts_of(p.batch * p.positions * p.heads, kWarps);
    launch(attention_sum_cells<T, is_discrete>, grid_for(blocks), dim3(kThreads), 0,
           workspace.stream(), p, count);
  });
}

const bool registered = attention_backward_value_stub.set(kCudaSlot, backward_value_cuda);

}  // namespace
}  // namespace visops
