// NOTE [ Gradients of samples on CUDA ]
// A block has adjacent queries of one head: their samples often read the same pixels. Eight lanes
// have a query, each four adjacent channels of it (and those 32 further on), so a tap's channels
// are read 16 bytes a lane where they are aligned. As in NOTE [ Deformable attention on CUDA ], the
// block's threads first place some samples of all its queries, one each, in shared memory. Lanes
// then sum products, a sample of the query after another, and last the block's threads turn sums
// into gradients, one sample each again. Blocks share nothing.
//
// Sums over channels are taken as NOTE [ Lane sums ] says. Of its 32 lanes, a thread has four
// adjacent ones, for each of the four taps. Where two threads halve their lanes, each gives half of
// its taps, later of its channels, away and goes on with the other: that takes 15 shuffles rather
// than 12 for each tap. Sums commute, so bits stay.
//
// All loads are made, or they would wait for tests: where a tap is outside the map, its neighbour
// inside is read, and the sum is dropped.
//
// Rounding: NOTE [ Gradients of deformable attention ] (core/deformable/attention.h), without
// contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/attention_samples.h"
#include "cuda/deformable/elements.h"
#include "cuda/lane_sum.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;  // of a multiprocessor, at least: half of what sm_80 can hold
constexpr int kLanes = 8;   // of a query
constexpr int kLaneChannels = kWarpLanes / kLanes;
constexpr int kQueries = kThreads / kLanes;
constexpr int kAtOnce = 16;  // samples of a query in shared memory

// Where a sample's first tap inside the map is, in bytes from value; and how far below it the other
// row is (0 if it is outside), plus 1 if both columns are inside.
struct alignas(16) TapPosition {
  int64_t at, below_and_wide;
};

template <class Acc>
struct PlacedSamples {
  TapPosition position[kQueries * kAtOnce];
  LocatedSample<Acc> located[kQueries * kAtOnce];
  Acc sum[kQueries * kAtOnce][4];
};

template <class T, class Acc>
__device__ TapPosition tap_position(const AttentionParams& p, const LevelAt& level,
                                    const BilinearSample<Acc>& s, int64_t head_at) {
  constexpr int64_t kBytes = sizeof(T);
  if (s.taps == 0) return {head_at * kBytes, 0};
  const int32_t y = s.y > 0 ? s.y : 0, x = s.x > 0 ? s.x : 0;
  const int64_t position = level.start + static_cast<int64_t>(y) * level.width + x;
  const bool is_wide = x == s.x && x + 1 < level.width, is_high = y == s.y && y + 1 < level.height;
  const int64_t below = is_high ? level.width * p.position_stride * kBytes : 0;
  return {(head_at + position * p.position_stride) * kBytes, below | (is_wide ? 1 : 0)};
}

// One tap's kLaneChannels channels from `at` on, of which `left` exist.
template <bool is_packed, class T>
__device__ void load_channels(const T* at, int64_t left,
                              typename Accumulate<T>::type (&value)[kLaneChannels]) {
  if constexpr (is_packed) {
    const auto packed = load_elements<kLaneChannels>(at);
#pragma unroll
    for (int c = 0; c < kLaneChannels; ++c) value[c] = load_element(&packed.value[c]);
  } else {
#pragma unroll
    for (int c = 0; c < kLaneChannels; ++c) value[c] = c < left ? load_element(at + c) : 0;
  }
}

// The sum over a query's lanes for tap `lane / 2`: NOTE [ Gradients of samples on CUDA ].
template <class Acc>
__device__ Acc sum_taps(const Acc (&product)[4][kLaneChannels], int lane) {
  const bool is_upper = (lane & 4) != 0, is_odd_pair = (lane & 2) != 0, is_odd = (lane & 1) != 0;
  Acc pair[2][4], tap[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {  // lanes 16 apart
      const Acc give = is_upper ? product[k][c] : product[k + 2][c];
      const Acc keep = is_upper ? product[k + 2][c] : product[k][c];
      pair[k][c] = keep + __shfl_xor_sync(kAllLanes, give, 4);
    }
    const Acc give = is_odd_pair ? pair[0][c] : pair[1][c];  // 8 apart
    const Acc keep = is_odd_pair ? pair[1][c] : pair[0][c];
    tap[c] = keep + __shfl_xor_sync(kAllLanes, give, 2);
  }
  Acc half[2];
#pragma unroll
  for (int c = 0; c < 2; ++c) {  // 4 apart
    const Acc give = is_odd ? tap[2 * c] : tap[2 * c + 1];
    const Acc keep = is_odd ? tap[2 * c + 1] : tap[2 * c];
    half[c] = keep + __shfl_xor_sync(kAllLanes, give, 1);
  }
  const Acc sum = half[0] + half[1];  // 2 apart
  return sum + __shfl_xor_sync(kAllLanes, sum, 1);
}

// Four taps' channels from `at`, that of the first one, on; of one, if `is_discrete`.
template <bool is_discrete, bool is_packed, class T, class Acc>
__device__ void load_taps(const char* at, int64_t right, int64_t below, int64_t left,
                          Acc (&value)[4][kLaneChannels]) {
  const char* const tap[] = {at, at + right, at + below, at + below + right};
#pragma unroll
  for (int k = 0; k < (is_discrete ? 1 : 4); ++k) {
    load_channels<is_packed>(reinterpret_cast<const T*>(tap[k]), left, value[k]);
  }
}

// The products of gradient and value for each tap; 0 for others than the first if `is_discrete`.
// `g` are the gradients of this lane's first channels.
template <bool is_discrete, bool is_packed, class T, class Acc>
__device__ void multiply_taps(const AttentionParams& p, const T* grad,
                              const Acc (&g)[kLaneChannels], const TapPosition& position, int lane,
                              Acc (&product)[4][kLaneChannels]) {
  const int64_t first = lane * kLaneChannels, below = position.below_and_wide & ~int64_t{1};
  const bool is_wide = (position.below_and_wide & 1) != 0;
  const int64_t right = is_wide ? p.position_stride * static_cast<int64_t>(sizeof(T)) : 0;
  const char* at = static_cast<const char*>(p.value) + first * sizeof(T) + position.at;
  Acc value[4][kLaneChannels] = {};
  load_taps<is_discrete, is_packed, T>(at, right, below, p.channels - first, value);
#pragma unroll
  for (int k = 0; k < (is_discrete ? 1 : 4); ++k) {
#pragma unroll
    for (int j = 0; j < kLaneChannels; ++j) product[k][j] = g[j] * value[k][j];
  }
#pragma unroll 1
  for (int64_t c = first + kWarpLanes; c < p.channels; c += kWarpLanes) {
    Acc more[kLaneChannels];
    at += kWarpLanes * sizeof(T);
    load_channels<is_packed>(grad + c, p.channels - c, more);
    load_taps<is_discrete, is_packed, T>(at, right, below, p.channels - c, value);
#pragma unroll
    for (int k = 0; k < (is_discrete ? 1 : 4); ++k) {
#pragma unroll
      for (int j = 0; j < kLaneChannels; ++j) product[k][j] += more[j] * value[k][j];
    }
  }
}

template <class T, bool is_discrete, bool is_packed>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 8 ? 1 : kBlocks)
    attention_backward_samples(const __grid_constant__ AttentionParams p, const int64_t blocks,
                               const int64_t head_blocks) {
  using Acc = typename Accumulate<T>::type;
  __shared__ Levels levels;
  __shared__ PlacedSamples<Acc> placed;
  const int thread = static_cast<int>(threadIdx.x);
  load_levels(p, thread, &levels);
  const int query = thread / kLanes, lane = thread % kLanes;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t plane = block / head_blocks,
                  first_query = (block - plane * head_blocks) * kQueries;
    const int64_t image = plane / p.heads, head = plane - image * p.heads;
    const int64_t left = p.queries - first_query, head_at = head_offset(p, image, head);
    const int queries = left < kQueries ? static_cast<int>(left) : kQueries;
    const int64_t first_row = (image * p.queries + first_query) * p.heads + head;
    const T* const grad =
        static_cast<const T*>(p.grad) + (first_row + query * p.heads) * p.channels;
    const bool has_channels = query < queries && lane * kLaneChannels < p.channels;
    Acc g[kLaneChannels] = {};
    if (has_channels) {
      load_channels<is_packed>(grad + lane * kLaneChannels, p.channels - lane * kLaneChannels, g);
    }
    for (int64_t first = 0; first < p.samples; first += kAtOnce) {
      const int64_t rest = p.samples - first;
      const int count = rest < kAtOnce ? static_cast<int>(rest) : kAtOnce;
      // f(i, the sample's level, its index among all) for this thread's samples of the block.
      const auto each_sample = [&](const auto& f) {
        for (int i = thread; i < queries * count; i += kThreads) {
          const int q = static_cast<int>(static_cast<unsigned>(i) / static_cast<unsigned>(count));
          const int64_t n = first + i - q * count;
          f(i, level_of_sample(levels, n), (first_row + q * p.heads) * p.samples + n);
        }
      };
      each_sample([&](int i, const LevelAt& level, int64_t at) {
        placed.located[i] = located_sample<is_discrete, Acc>(p, level, at);
        placed.position[i] = tap_position<T>(p, level, placed.located[i].bilinear, head_at);
      });
      __syncthreads();
      for (int n = 0; n < count; ++n) {
        const int i = query * count + n;
        Acc product[4][kLaneChannels] = {};
        if (has_channels) {
          multiply_taps<is_discrete, is_packed>(p, grad, g, placed.position[i], lane, product);
        }
        const Acc sum = sum_taps(product, lane);
        if (query < queries && lane % 2 == 0) placed.sum[i][lane / 2] = sum;
      }
      __syncthreads();
      each_sample([&](int i, const LevelAt& level, int64_t at) {
        const LocatedSample<Acc> s = placed.located[i];
        Acc sum[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          sum[k] = (s.bilinear.taps & 1 << k) != 0 ? placed.sum[i][k] : static_cast<Acc>(0);
        }
        const SampleGradient<Acc> gradient =
            sample_gradient<is_discrete>(s.bilinear, s.attention, level.height, level.width, sum);
        write_number(p.grad_weights, p.weights_dtype, at, gradient.attention);
        write_number(p.grad_locations, p.locations_dtype, 2 * at, gradient.u);
        write_number(p.grad_locations, p.locations_dtype, 2 * at + 1, gradient.v);
      });  // a thread reads and replaces what it has placed itself
    }
  }
}

template <class T, bool is_discrete, bool is_packed>
void backward_samples(const AttentionParams& p, void* stream) {
  const int64_t head_blocks = parts_of(p.queries, kQueries),
                blocks = p.batch * p.heads * head_blocks;
  launch(attention_backward_samples<T, is_discrete, is_packed>, grid_for(blocks), dim3(kThreads), 0,
         stream, p, blocks, head_blocks);
}

void backward_samples_cuda(const AttentionParams& p, Workspace& workspace) {
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    if (has_packs<T, kLaneChannels>(p) && begins_wide(p.grad)) {
      backward_samples<T, is_discrete, true>(p, workspace.stream());
    } else {
      backward_samples<T, is_discrete, false>(p, workspace.stream());
    }
  });
}

const bool registered = attention_backward_samples_stub.set(kCudaSlot, backward_samples_cuda);

}  // namespace
}  // namespace visops
