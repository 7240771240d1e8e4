// NOTE [ Samples of a pixel ]
// Gradients of maps are sums over the samples that read a pixel, by index, without atomics. Where
// samples lie is data, so each pixel first gets a list of its own.
//
// A sample lies in a cell, the four pixels around it, of which some may be outside the map. A map
// of height x width has (height + 1) x (width + 1) cells: pixel (y, x) is read from the cells
// (y, x), (y, x + 1), (y + 1, x) and (y + 1, x + 1), as their last, third, second and first tap.
// One kernel writes the number of each sample's cell, in 32 bits, and torch sorts them, stably. A
// thread a cell finds where it begins among the sorted samples, by binary search. Then a thread a
// sample writes entries, gradient row and weight, into the lists of its four pixels. A pixel's list
// is the merge of its cells' samples, and a sample comes there after those with lower indices: it
// counts them in each of the four cells, by binary search. With counts from the first sorted sample
// on, in place of the cell's, lists of pixels cannot overlap: this one's end and the next one's
// begin, sums over four cells, differ only by samples of cells between. So nothing has to be added
// up to know where lists begin.
//
// Where samples read one pixel, it is named by a cell, and the sorted samples are its list.
#pragma once

#include <type_traits>

#include "core/deformable/pixel_lists.h"
#include "core/deformable/points.h"
#include "core/numbers/arithmetic.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int32_t kNoCell = INT32_MAX;

// What a pixel adds: `weight` times a row of the gradient.
template <class Acc>
struct alignas(2 * sizeof(Acc)) ListEntry {
  int32_t row;
  Acc weight;
};

// A sample, as sources tell it. A source has
//   Acc and Maps, which a block's threads load into shared memory;
//   is_single: samples read one pixel, their first tap;
//   load(maps), called by all threads of a block;
//   at(maps, i), the sample with index i.
template <class Acc>
struct ListedSample {
  int32_t cell;           // its number among all
  int32_t y, x;           // the cell, which begins at pixel (y - 1, x - 1)
  int32_t height, width;  // of the map
  int32_t taps;           // 0: the sample does not count
  int32_t row;            // of the gradient
  Acc weight[4];
};

// Maps of sources that need nothing in shared memory.
struct NoMaps {};

constexpr int kListThreads = 256;

template <class Source>
__global__ void __launch_bounds__(kListThreads)
    list_cells(const __grid_constant__ Source source, const __grid_constant__ PixelLists lists) {
  __shared__ typename Source::Maps maps;
  source.load(&maps);
  const int64_t step = int64_t{gridDim.x} * kListThreads;
  int64_t i = int64_t{blockIdx.x} * kListThreads + threadIdx.x;
  for (; i < lists.samples; i += step) {
    const auto sample = source.at(maps, static_cast<int32_t>(i));
    lists.cell_of[i] = sample.taps == 0 ? kNoCell : sample.cell;
  }
}

// The first place in [begin, end) that is not before(place).
template <class Place, class Before>
__device__ Place first_place(Place begin, Place end, const Before& before) {
  while (begin < end) {
    const Place middle = begin + (end - begin) / 2;
    if (before(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

__global__ void __launch_bounds__(kListThreads)
    list_begins(const __grid_constant__ PixelLists lists) {
  const int64_t step = int64_t{gridDim.x} * kListThreads;
  int64_t cell = int64_t{blockIdx.x} * kListThreads + threadIdx.x;
  for (; cell <= lists.cells; cell += step) {
    const int32_t count = static_cast<int32_t>(lists.samples);
    lists.begins[cell] =
        first_place(0, count, [&](int32_t place) { return lists.sorted_cells[place] < cell; });
  }
}

// For the cells around a sample's, and its own in the middle: how many sorted samples come before
// the first of the cell that has a higher index. 0 for those outside the map.
template <class Acc>
__device__ void count_before(const PixelLists& lists, const ListedSample<Acc>& sample, int32_t i,
                             int32_t place, uint32_t before[3][3]) {
#pragma unroll
  for (int r = 0; r < 3; ++r) {
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      const int32_t y = sample.y + r - 1, x = sample.x + c - 1;
      before[r][c] = r == 1 && c == 1 ? static_cast<uint32_t>(place) : 0;
      if ((r == 1 && c == 1) || y < 0 || x < 0 || y > sample.height || x > sample.width) continue;
      const int32_t* begin = lists.begins + sample.cell + (r - 1) * (sample.width + 1) + (c - 1);
      before[r][c] = static_cast<uint32_t>(
          first_place(begin[0], begin[1], [&](int32_t other) { return lists.order[other] < i; }));
    }
  }
}

template <class Source>
__global__ void __launch_bounds__(kListThreads)
    list_samples(const __grid_constant__ Source source, const __grid_constant__ PixelLists lists) {
  using Entry = ListEntry<typename Source::Acc>;
  __shared__ typename Source::Maps maps;
  source.load(&maps);
  Entry* const entries = static_cast<Entry*>(lists.entries);
  const int64_t step = int64_t{gridDim.x} * kListThreads;
  int64_t place = int64_t{blockIdx.x} * kListThreads + threadIdx.x;
  for (; place < lists.samples; place += step) {
    if (lists.sorted_cells[place] == kNoCell) return;  // and so are all that follow
    const int32_t i = static_cast<int32_t>(lists.order[place]);
    const auto sample = source.at(maps, i);
    if constexpr (Source::is_single) {
      entries[place] = {sample.row, sample.weight[0]};
    } else {
      uint32_t before[3][3];
      count_before(lists, sample, i, static_cast<int32_t>(place), before);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int r = k / 2, c = k % 2;  // of the first of the pixel's cells
        const uint32_t at =
            before[r][c] + before[r][c + 1] + before[r + 1][c] + before[r + 1][c + 1];
        if ((sample.taps & 1 << k) != 0) entries[at] = {sample.row, sample.weight[k]};
      }
    }
  }
}

// The first two steps of lists.
template <class Source>
void make_lists(const Source& source, const PixelLists& lists, void* stream) {
  const dim3 grid = grid_for(parts_of(lists.samples, kListThreads)), block(kListThreads);
  if (lists.step == ListStep::kCells) {
    launch(list_cells<Source>, grid, block, 0, stream, source, lists);
    return;
  }
  launch(list_begins, grid_for(parts_of(lists.cells + 1, kListThreads)), block, 0, stream, lists);
  launch(list_samples<Source>, grid, block, 0, stream, source, lists);
}

// Entries [begin, end).
struct ListRange {
  uint32_t begin, end;
};

// The list of pixel (y, x), from the number of the cell (y, x) and that of cells in a row.
template <bool is_single>
__device__ ListRange list_of_pixel(const PixelLists& lists, int64_t cell, int64_t row_cells) {
  const int32_t* const upper = lists.begins + cell;
  const auto sum = [](int32_t a, int32_t b, int32_t c, int32_t d) {
    return static_cast<uint32_t>(a) + static_cast<uint32_t>(b) + static_cast<uint32_t>(c) +
           static_cast<uint32_t>(d);
  };
  if constexpr (is_single) return {sum(upper[0], 0, 0, 0), sum(upper[1], 0, 0, 0)};
  const int32_t* const lower = upper + row_cells;
  return {sum(upper[0], upper[1], lower[0], lower[1]), sum(upper[1], upper[2], lower[1], lower[2])};
}

}  // namespace
}  // namespace visops
