// NOTE [ Gradient of values on CUDA ]
// Each pixel of each head has a list of what it adds: NOTE [ Samples of a pixel ]. "discrete"
// names the pixel that a sample reads by the cell that begins there. A thread has some adjacent
// channels of a pixel and head, 16 bytes of sums where gradients are aligned, and goes through the
// list, so adjacent threads read a row of the gradient in one transaction. Each gradient is written
// once.
//
// Sums are in the contract's order, so a pixel's additions wait for one another, but not its loads:
// several entries are read ahead. Coarse levels have few pixels and long lists. They come last
// among positions, so blocks go backwards, or the longest lists would be the last to begin.
//
// Rounding: NOTE [ Gradients of deformable attention ] (core/deformable/attention.h), without
// contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/attention_samples.h"
#include "cuda/deformable/elements.h"
#include "cuda/deformable/pixel_lists.h"
#include "cuda/divisor.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kMostLanes = 32;
constexpr uint32_t kAhead = 4;

template <class A, bool is_discrete>
struct AttentionSource {
  using Acc = A;
  using Maps = Levels;
  static constexpr bool is_single = is_discrete;

  AttentionParams p;
  Divisor<int32_t> samples, heads, queries;

  __device__ void load(Levels* levels) const {
    load_levels(p, static_cast<int>(threadIdx.x), levels);
  }

  __device__ ListedSample<Acc> at(const Levels& levels, int32_t i) const {
    const int32_t row = samples.divide(i), query = heads.divide(row), image = queries.divide(query);
    const LevelAt& level = level_of_sample(levels, i - row * samples.value);
    const LocatedSample<Acc> s = located_sample<is_discrete, Acc>(p, level, i);
    const int32_t plane = image * heads.value + row - query * heads.value;
    ListedSample<Acc> sample;
    const int32_t last = is_discrete ? 0 : 1;  // cells begin one pixel before the map
    sample.y = s.bilinear.y + last;
    sample.x = s.bilinear.x + last;
    sample.height = level.height;
    sample.width = level.width;
    sample.cell = plane * levels.cells + level.first_cell + sample.y * (level.width + 1) + sample.x;
    sample.taps = s.bilinear.taps;
    sample.row = row;
    tap_weights<is_discrete>(s.bilinear, s.attention, sample.weight);
    return sample;
  }
};

// A pixel's sums over its list, for kCount channels from c on. Loads don't wait for additions:
// those of kAhead gradients are under way at once, and of as many entries for the next turn. The
// last turn repeats the last entry, and does not add it again.
template <class T, int kCount>
__device__ Elements<typename Accumulate<T>::type, kCount> sum_entries(const AttentionParams& p,
                                                                      const ListRange& list,
                                                                      uint32_t c) {
  using Acc = typename Accumulate<T>::type;
  const auto* const entries = static_cast<const ListEntry<Acc>*>(p.lists.entries);
  const char* const grad = reinterpret_cast<const char*>(static_cast<const T*>(p.grad) + c);
  const uint32_t row_bytes = static_cast<uint32_t>(p.channels) * static_cast<uint32_t>(sizeof(T));
  Elements<Acc, kCount> sum = {};
  if (list.begin == list.end) return sum;
  const uint32_t last = list.end - 1;
  ListEntry<Acc> entry[kAhead];
#pragma unroll
  for (uint32_t k = 0; k < kAhead; ++k) {
    entry[k] = entries[list.begin + k < last ? list.begin + k : last];
  }
  for (uint32_t n = list.begin; n < list.end; n += kAhead) {
    Elements<T, kCount> g[kAhead];
    Acc weight[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      const uint64_t at = uint64_t{static_cast<uint32_t>(entry[k].row)} * row_bytes;
      g[k] = *reinterpret_cast<const Elements<T, kCount>*>(grad + at);
      weight[k] = entry[k].weight;
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      const uint32_t next = n + kAhead + k;
      entry[k] = entries[next < last ? next : last];
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      if (k > 0 && n + k > last) break;
#pragma unroll
      for (int j = 0; j < kCount; ++j) sum.value[j] += weight[k] * load_element(&g[k].value[j]);
    }
  }
  return sum;
}

// Blocks of (lanes, pixels of a head) threads, of which a head has `head_blocks`. A thread has
// kCount channels at a time.
template <class T, bool is_discrete, int kCount>
__global__ void __launch_bounds__(kThreads)
    attention_sum_lists(const __grid_constant__ AttentionParams p, const int64_t blocks,
                        const Divisor<int32_t> head_blocks) {
  using Acc = typename Accumulate<T>::type;
  __shared__ Levels levels;
  load_levels(p, static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x), &levels);
  const uint32_t channels = static_cast<uint32_t>(p.channels);
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int32_t plane = head_blocks.divide(static_cast<int32_t>(block));
    const int64_t in_plane = block - static_cast<int64_t>(plane) * head_blocks.value;
    const int64_t position = p.positions - 1 - (in_plane * blockDim.y + threadIdx.y);
    if (position < 0) continue;
    int64_t l = 0;
    while (l < p.levels && position >= levels.at[l].start + area_of(levels.at[l])) ++l;
    ListRange list = {0, 0};
    if (l < p.levels) {
      const LevelAt& level = levels.at[l];
      const int32_t pixel = static_cast<int32_t>(position - level.start), y = pixel / level.width;
      const int64_t cell = plane * int64_t{levels.cells} + level.first_cell + pixel + y;
      list = list_of_pixel<is_discrete>(p.lists, cell, level.width + int64_t{1});
    }
    const int64_t image = plane / p.heads, head = plane - image * p.heads;
    Acc* const out = static_cast<Acc*>(p.grad_value) +
                     ((image * p.positions + position) * p.heads + head) * p.channels;
    for (uint32_t c = threadIdx.x * kCount; c < channels; c += blockDim.x * kCount) {
      store_elements(out, c / kCount, sum_entries<T, kCount>(p, list, c));
    }
  }
}

template <class T, bool is_discrete, int kCount>
void sum_lists(const AttentionParams& p, void* stream) {
  const int64_t packs = p.channels / kCount;
  const int lanes = packs < kMostLanes ? static_cast<int>(packs) : kMostLanes;
  const int pixels = kThreads / lanes;
  const int64_t head_blocks = parts_of(p.positions, pixels),
                blocks = p.batch * p.heads * head_blocks;
  launch(attention_sum_lists<T, is_discrete, kCount>, grid_for(blocks),
         dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(pixels)), 0, stream, p, blocks,
         divisor_of<int32_t>(head_blocks));
}

void backward_value_cuda(const AttentionParams& p, Workspace& workspace) {
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    if (p.lists.step != ListStep::kSums) {
      const AttentionSource<Acc, is_discrete> source = {p, divisor_of<int32_t>(p.samples),
                                                        divisor_of<int32_t>(p.heads),
                                                        divisor_of<int32_t>(p.queries)};
      return make_lists(source, p.lists, workspace.stream());
    }
    constexpr int kCount = kWideCount<Acc>;
    if (begins_wide(p.grad) && p.channels % kCount == 0) {
      sum_lists<T, is_discrete, kCount>(p, workspace.stream());
    } else {
      sum_lists<T, is_discrete, 1>(p, workspace.stream());
    }
  });
}

const bool registered = attention_backward_value_stub.set(kCudaSlot, backward_value_cuda);

}  // namespace
}  // namespace visops
