// NOTE [ Deformable attention on CUDA ]
// A thread has four adjacent channels of a query and head (or one, where they are not aligned, and
// for float64, which would need too many registers), so a tap's channels are read by adjacent
// threads in one transaction. Every thread would have to place the same samples again; instead, the
// block's threads place some samples of all its heads, one each, in shared memory, and then read
// and add. Each output is written once.
//
// The queries of an encoder are value's positions, and nearby ones have nearby samples. So a block
// takes one head's queries, tile by tile of 8 x 4 positions: its taps are then half as many lines
// of the cache as those of queries along a row, all heads of each.
//
// Threads are bound by instructions, not by memory. So a sample's place is in bytes: a tap takes
// one addition. What a thread needs of a sample is two pieces of 16 bytes (float32),
// which lanes of one head read together: whatever the rows of shared memory between heads, no two
// heads are in one pass. Samples whose taps all exist, nearly all of them, have no branch a tap.
//
// Rounding: NOTE [ Samples of deformable attention ] (core/deformable/attention.h), without
// contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/attention_samples.h"
#include "cuda/deformable/elements.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;           // of a multiprocessor, at least: half of what sm_80 can hold
constexpr int kLocatedAtOnce = 512;  // samples in shared memory

// Where a sample's taps are, in bytes: from value to tap 00; and 16 times from there to tap 10,
// plus the bits of the taps that exist.
struct alignas(16) TapPosition {
  int64_t at;
  int64_t row_and_taps;
};

template <class Acc>
struct alignas(16) TapWeights {
  Acc weight[4];
};

// What the block's threads place for each other.
template <class Acc>
struct LocatedTaps {
  TapPosition bilinear[kLocatedAtOnce];
  TapWeights<Acc> weights[kLocatedAtOnce];
  int64_t head_at[kThreads];  // where the rows' heads begin in value
  int64_t row_at[kThreads];   // the rows' numbers in the output
};

constexpr int32_t kTileWidth = 8, kTileHeight = 4;  // in queries

// The i-th query of a head, in the order in which blocks take them. Each is one of them, whatever
// the levels.
__device__ inline int64_t query_in_order(const AttentionParams& p, const Levels& levels,
                                         int64_t i) {
  const LevelAt& last = levels.at[p.levels - 1];
  if (p.queries != p.positions || last.start + area_of(last) != p.queries) return i;
  int l = 0;
  while (i >= levels.at[l].start + area_of(levels.at[l])) ++l;
  const LevelAt& level = levels.at[l];
  const auto own = static_cast<int32_t>(i - level.start);
  const int32_t band = own / level.width / kTileHeight,
                in_band = own - band * kTileHeight * level.width;
  const int32_t left = level.height - band * kTileHeight;
  const int32_t rows = left < kTileHeight ? left : kTileHeight;
  const int32_t tile = in_band / (rows * kTileWidth), in_tile = in_band - tile * rows * kTileWidth;
  const int32_t beside = level.width - tile * kTileWidth;
  const int32_t columns = beside < kTileWidth ? beside : kTileWidth;
  const int32_t y = in_tile / columns, x = in_tile - y * columns;
  return level.start + int64_t{band * kTileHeight + y} * level.width + tile * kTileWidth + x;
}

template <class T, bool is_discrete, class Acc>
__device__ void locate_taps(const AttentionParams& p, const Levels& levels, int64_t head_at,
                            int64_t row, int64_t sample, TapPosition* bilinear,
                            TapWeights<Acc>* weights) {
  const LevelAt& level = level_of_sample(levels, sample);
  const LocatedSample<Acc> s = located_sample<is_discrete, Acc>(p, level, row * p.samples + sample);
  const int64_t position =
      level.start + static_cast<int64_t>(s.bilinear.y) * level.width + s.bilinear.x;
  constexpr int64_t kBytes = sizeof(T);
  bilinear->at = (head_at + position * p.position_stride) * kBytes;
  bilinear->row_and_taps = level.width * p.position_stride * (16 * kBytes) | s.bilinear.taps;
  tap_weights<is_discrete>(s.bilinear, s.attention, weights->weight);
}

// Adds a sample whose tap 00 is `at`. Unless it is whole, each tap is asked whether it exists.
template <bool is_discrete, bool is_whole, class T, int V, class Acc>
__device__ void add_taps(const char* at, int64_t position_bytes, int64_t row_and_taps,
                         const TapWeights<Acc>& w, Acc sum[V]) {
  const auto tap = [&](int32_t which, int64_t bytes) {
    if (!is_whole && (row_and_taps & which) == 0) return Elements<T, V>{};
    return load_elements<V>(reinterpret_cast<const T*>(at + bytes));
  };
  const Elements<T, V> v00 = tap(kTap00, 0);
  if constexpr (is_discrete) {
    for (int i = 0; i < V; ++i) sum[i] += w.weight[0] * load_element(&v00.value[i]);
    return;
  }
  const int64_t row_bytes = row_and_taps >> 4;
  const Elements<T, V> v01 = tap(kTap01, position_bytes);
  const Elements<T, V> v10 = tap(kTap10, row_bytes);
  const Elements<T, V> v11 = tap(kTap11, row_bytes + position_bytes);
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const Acc top =
        w.weight[0] * load_element(&v00.value[i]) + w.weight[1] * load_element(&v01.value[i]);
    const Acc bottom =
        w.weight[2] * load_element(&v10.value[i]) + w.weight[3] * load_element(&v11.value[i]);
    sum[i] += top + bottom;
  }
}

template <class T, bool is_discrete, int V>
__global__ void __launch_bounds__(kThreads, kBlocks)
    attention(const __grid_constant__ AttentionParams p, const int64_t blocks) {
  using Acc = typename Accumulate<T>::type;
  __shared__ Levels levels;
  __shared__ LocatedTaps<Acc> located;
  load_levels(p, static_cast<int>(threadIdx.x), &levels);
  const int64_t lanes = p.channels / V, rows = p.batch * p.heads * p.queries;
  const int64_t slots = rows * lanes;
  const int64_t position_bytes = p.position_stride * static_cast<int64_t>(sizeof(T));
  constexpr int kWhole = is_discrete ? kTap00 : kAllTaps;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t first_slot = block * kThreads, slot = first_slot + threadIdx.x;
    const int64_t last_slot = first_slot + kThreads < slots ? first_slot + kThreads : slots;
    const int64_t first_row = first_slot / lanes, row = slot / lanes;
    const int row_count = static_cast<int>((last_slot - 1) / lanes + 1 - first_row);
    const int at_once = kLocatedAtOnce / row_count;  // there are at most kThreads rows
    const char* value =
        reinterpret_cast<const char*>(static_cast<const T*>(p.value) + (slot - row * lanes) * V);
    if (static_cast<int>(threadIdx.x) < row_count) {
      const int64_t r = first_row + threadIdx.x, plane = r / p.queries, image = plane / p.heads;
      const int64_t head = plane - image * p.heads;
      const int64_t query = query_in_order(p, levels, r - plane * p.queries);
      located.head_at[threadIdx.x] = head_offset(p, image, head);
      located.row_at[threadIdx.x] = (image * p.queries + query) * p.heads + head;
    }
    __syncthreads();
    Acc sum[V] = {};
    for (int64_t first = 0; first < p.samples; first += at_once) {
      const int64_t left = p.samples - first;
      const int count = left < at_once ? static_cast<int>(left) : at_once;
      for (int i = threadIdx.x; i < row_count * count; i += kThreads) {
        const int r = static_cast<int>(static_cast<unsigned>(i) / static_cast<unsigned>(count));
        locate_taps<T, is_discrete, Acc>(p, levels, located.head_at[r], located.row_at[r],
                                         first + i - r * count, &located.bilinear[i],
                                         &located.weights[i]);
      }
      __syncthreads();
      if (slot < slots) {
        const int begin = static_cast<int>(row - first_row) * count;
        for (int i = begin; i < begin + count; ++i) {
          const TapPosition bilinear = located.bilinear[i];
          const TapWeights<Acc> weights = located.weights[i];
          const int32_t taps = static_cast<int32_t>(bilinear.row_and_taps) & kAllTaps;
          const char* at = value + bilinear.at;
          if (taps == kWhole) {
            add_taps<is_discrete, true, T, V>(at, position_bytes, bilinear.row_and_taps, weights,
                                              sum);
          } else if (taps != 0) {
            add_taps<is_discrete, false, T, V>(at, position_bytes, bilinear.row_and_taps, weights,
                                               sum);
          }
        }
      }
      __syncthreads();  // before the samples are replaced
    }
    if (slot < slots) {
      Elements<T, V> out;
#pragma unroll
      for (int i = 0; i < V; ++i) store_element(&out.value[i], sum[i]);
      const int64_t at = located.row_at[row - first_row] * lanes + (slot - row * lanes);
      store_elements(static_cast<T*>(p.output), at, out);
    }
    __syncthreads();  // before the rows are replaced
  }
}

template <class T, bool is_discrete, int V>
void attention_as(const AttentionParams& p, void* stream) {
  const int64_t slots = p.batch * p.queries * p.heads * (p.channels / V);
  const int64_t blocks = parts_of(slots, kThreads);
  launch(attention<T, is_discrete, V>, grid_for(blocks), dim3(kThreads), 0, stream, p, blocks);
}

void attention_cuda(const AttentionParams& p, Workspace& workspace) {
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    constexpr int kPack = sizeof(T) == 8 ? 1 : 4;
    if (has_packs<T, kPack>(p)) {
      attention_as<T, is_discrete, kPack>(p, workspace.stream());
    } else {
      attention_as<T, is_discrete, 1>(p, workspace.stream());
    }
  });
}

const bool registered = attention_stub.set(kCudaSlot, attention_cuda);

}  // namespace
}  // namespace visops
