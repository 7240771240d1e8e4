// NOTE [ Deformable attention on CUDA ]
// A thread has four adjacent channels of a query and head (or one, where they are not aligned, and
// for float64, which would need too many registers), so a tap's channels are read by adjacent
// threads in one transaction. Every thread would have to place the same samples again; instead, the
// block's threads place some samples of all its heads, one each, in shared memory, and then read
// and add. Each output is written once.
//
// Rounding: NOTE [ Samples of deformable attention ] (core/deformable/attention.h), without
// contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/attention_samples.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;           // of a multiprocessor, at least: half of what sm_80 can hold
constexpr int kLocatedAtOnce = 512;  // samples in shared memory

template <class T, int V>
struct alignas(V * sizeof(T)) Pack {
  T element[V];
};

template <class Acc>
struct LocatedTaps {
  int64_t first;     // elements of value before tap 00
  int64_t row_step;  // from there to tap 10
  int32_t taps;
  Acc weight[4];
};

template <bool is_discrete, class Acc>
__device__ LocatedTaps<Acc> locate_taps(const AttentionParams& p, const Levels& levels, int64_t row,
                                        int64_t sample) {
  const LevelAt& level = level_of_sample(levels, sample);
  const LocatedSample<Acc> s = located_sample<is_discrete, Acc>(p, level, row * p.samples + sample);
  LocatedTaps<Acc> located;
  const int64_t position =
      level.start + static_cast<int64_t>(s.bilinear.y) * level.width + s.bilinear.x;
  located.first =
      head_offset(p, row / p.heads / p.queries, row % p.heads) + position * p.position_stride;
  located.row_step = level.width * p.position_stride;
  located.taps = s.bilinear.taps;
  tap_weights<is_discrete>(s.bilinear, s.attention, located.weight);
  return located;
}

template <class T, int V>
__device__ Pack<T, V> load_tap(const T* value, int64_t offset, bool exists) {
  if (!exists) return Pack<T, V>{};
  return *reinterpret_cast<const Pack<T, V>*>(value + offset);
}

template <bool is_discrete, class T, int V, class Acc>
__device__ void add_sample(const T* value, int64_t position_stride, const LocatedTaps<Acc>& s,
                           Acc sum[V]) {
  const Pack<T, V> v00 = load_tap<T, V>(value, s.first, (s.taps & kTap00) != 0);
  if constexpr (is_discrete) {
    for (int i = 0; i < V; ++i) sum[i] += s.weight[0] * load_element(&v00.element[i]);
    return;
  }
  const int64_t below = s.first + s.row_step;
  const Pack<T, V> v01 = load_tap<T, V>(value, s.first + position_stride, (s.taps & kTap01) != 0);
  const Pack<T, V> v10 = load_tap<T, V>(value, below, (s.taps & kTap10) != 0);
  const Pack<T, V> v11 = load_tap<T, V>(value, below + position_stride, (s.taps & kTap11) != 0);
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const Acc top =
        s.weight[0] * load_element(&v00.element[i]) + s.weight[1] * load_element(&v01.element[i]);
    const Acc bottom =
        s.weight[2] * load_element(&v10.element[i]) + s.weight[3] * load_element(&v11.element[i]);
    sum[i] += top + bottom;
  }
}

template <class T, bool is_discrete, int V>
__global__ void __launch_bounds__(kThreads, kBlocks)
    attention(const __grid_constant__ AttentionParams p, const int64_t blocks) {
  using Acc = typename Accumulate<T>::type;
  __shared__ Levels levels;
  __shared__ LocatedTaps<Acc> located[kLocatedAtOnce];
  load_levels(p, &levels);
  const int64_t lanes = p.channels / V, rows = p.batch * p.queries * p.heads;
  const int64_t slots = rows * lanes;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t first_slot = block * kThreads, slot = first_slot + threadIdx.x;
    const int64_t last_slot = first_slot + kThreads < slots ? first_slot + kThreads : slots;
    const int64_t first_row = first_slot / lanes, row = slot / lanes;
    const int64_t row_count = (last_slot - 1) / lanes + 1 - first_row;  // at most kThreads
    const int64_t at_once = kLocatedAtOnce / row_count;
    const T* value = static_cast<const T*>(p.value) + (slot - row * lanes) * V;
    Acc sum[V] = {};
    for (int64_t first = 0; first < p.samples; first += at_once) {
      const int64_t left = p.samples - first, count = left < at_once ? left : at_once;
      for (int64_t i = threadIdx.x; i < row_count * count; i += kThreads) {
        const int64_t r = i / count;
        located[i] = locate_taps<is_discrete, Acc>(p, levels, first_row + r, first + i - r * count);
      }
      __syncthreads();
      if (slot < slots) {
        const LocatedTaps<Acc>* samples = located + (row - first_row) * count;
        for (int64_t i = 0; i < count; ++i) {
          if (samples[i].taps == 0) continue;
          add_sample<is_discrete, T, V>(value, p.position_stride, samples[i], sum);
        }
      }
      __syncthreads();  // before the samples are replaced
    }
    if (slot >= slots) continue;
    Pack<T, V> out;
#pragma unroll
    for (int i = 0; i < V; ++i) store_element(&out.element[i], sum[i]);
    *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(p.output) + slot * V) = out;
  }
}

template <class T, bool is_discrete, int V>
void attention_as(const AttentionParams& p, void* stream) {
  const int64_t slots = p.batch * p.queries * p.heads * (p.channels / V);
  const int64_t blocks = parts_of(slots, kThreads);
  launch(attention<T, is_discrete, V>, grid_for(blocks), dim3(kThreads), 0, stream, p, blocks);
}

// Whether packs of V elements are aligned everywhere in value.
template <class T, int V>
bool is_packed(const AttentionParams& p) {
  return reinterpret_cast<uintptr_t>(p.value) % (V * sizeof(T)) == 0 && p.channels % V == 0 &&
         p.batch_stride % V == 0 && p.position_stride % V == 0 && p.head_stride % V == 0;
}

void attention_cuda(const AttentionParams& p, Workspace& workspace) {
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    constexpr int kPack = sizeof(T) == 8 ? 1 : 4;
    if (is_packed<T, kPack>(p)) {
      attention_as<T, is_discrete, kPack>(p, workspace.stream());
    } else {
      attention_as<T, is_discrete, 1>(p, workspace.stream());
    }
  });
}

const bool registered = attention_stub.set(kCudaSlot, attention_cuda);

}  // namespace
}  // namespace visops
