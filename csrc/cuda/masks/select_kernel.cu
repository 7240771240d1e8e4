// Suppression and merging of masks on CUDA.
//
// NOTE [ Masks by score on CUDA ]
// Suppression: warps compare each mask with 32 earlier ones, whose answers make a word; boxes,
// areas and groups rule most pairs out before a pixel is read. Then one warp decides masks in
// order, 32 at a time: lanes join the answers about masks kept before, and ballots settle those
// within the 32. That warp reads count^2 / 1024 words for each lane, little next to the masks.
//
// Merging: two kernels for each mask. The first counts its pixels that have been drawn, the second
// decides, in every block alike, and draws. The host knows nothing of what is drawn, and waits for
// nothing.
//
// Split: warps stride over pairs, threads over words. Sums are of integers.
#include "core/dispatch/workspace.h"
#include "core/masks/select.h"
#include "cuda/threads.h"

namespace visops {
namespace {

__device__ inline int64_t sum_over_warp(int64_t value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, step);
  }
  return value;
}

// The pixels that masks i and j have in common, counted by a warp.
__device__ inline int64_t common_of_warp(const MeasuredMasks& masks, int64_t height, int64_t words,
                                         int64_t i, int64_t j) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const CommonWords common = common_words(masks.boxes[i], masks.boxes[j]);
  const int64_t width = common.end - common.begin;
  const int64_t all = width > 0 ? width * (common.y2 - common.y1) : 0;
  int64_t count = 0;
  for (int64_t k = lane; k < all; k += kWarp) {
    const int64_t y = common.y1 + k / width, w = common.begin + k % width;
    count += __popcll(masks.bits[(i * height + y) * words + w] &
                      masks.bits[(j * height + y) * words + w]);
  }
  return sum_over_warp(count);
}

// Bit b of met[position * groups + g]: the mask at 32 g + b, which comes earlier, would suppress.
__global__ void __launch_bounds__(kThreads)
    compare_masks(const __grid_constant__ SuppressMasksParams p, uint32_t* met) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t count = p.masks.count, groups = (count + kWarp - 1) / kWarp;
  for (int64_t item = first_warp(); item < count * groups; item += all_warps()) {
    const int64_t position = item / groups, first = (item - position * groups) * kWarp;
    if (first >= position) continue;
    const int64_t j = mask_at(p.order, count, position);
    const int64_t mine = first + lane < position ? mask_at(p.order, count, first + lane) : -1;
    const bool may = j >= 0 && mine >= 0 && may_suppress(p, mine, j);
    unsigned word = 0;
    for (unsigned rest = __ballot_sync(kWholeWarp, may); rest != 0; rest &= rest - 1) {
      const int b = __ffs(static_cast<int>(rest)) - 1;
      const int64_t i = __shfl_sync(kWholeWarp, mine, b);
      const int64_t common = common_of_warp(p.masks, p.height, p.words, i, j);
      if (suppresses(p, i, j, common)) word |= 1u << b;
    }
    if (lane == 0) met[item] = word;
  }
}

// One warp: decides 32 positions at a time.
__global__ void __launch_bounds__(kWarp) decide_masks(const __grid_constant__ SuppressMasksParams p,
                                                      const uint32_t* met, uint32_t* kept_words) {
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t count = p.masks.count, groups = (count + kWarp - 1) / kWarp;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t position = g * kWarp + lane;
    bool open = position < count && mask_at(p.order, count, position) >= 0;
    for (int64_t k = 0; k < g && open; ++k) {
      open = (met[position * groups + k] & kept_words[k]) == 0;
    }
    const uint32_t own = open && lane > 0 ? met[position * groups + g] : 0;
    unsigned undecided = __ballot_sync(kWholeWarp, open), kept = 0;
    while (undecided != 0) {
      const bool asks = (undecided >> lane & 1) != 0;
      const unsigned now = __ballot_sync(kWholeWarp, asks && (own & undecided) == 0);
      const unsigned out = __ballot_sync(kWholeWarp, asks && (own & now) != 0);
      kept |= now;
      undecided &= ~(now | out);
    }
    if (lane == 0) kept_words[g] = kept;
    if (position < count) p.kept[position] = static_cast<uint8_t>(kept >> lane & 1);
    __syncwarp();
  }
}

void suppress_masks_cuda(const SuppressMasksParams& p, Workspace& workspace) {
  const int64_t count = p.masks.count, groups = (count + kWarp - 1) / kWarp;
  uint32_t* met = allocate<uint32_t>(workspace, count * groups);
  uint32_t* kept_words = allocate<uint32_t>(workspace, groups);
  void* stream = workspace.stream();
  launch(compare_masks, grid_of_warps(count * groups), dim3(kThreads), 0, stream, p, met);
  launch(decide_masks, dim3(1), dim3(kWarp), 0, stream, p, met, kept_words);
}

// What is known before each mask: its pixels that have been drawn, and how many masks have been.
struct MergeState {
  unsigned long long* covered;  // [count] by position
  int32_t* masks;               // [count + 1] by position
  uint64_t* drawn;              // [height, words]
};

__global__ void __launch_bounds__(kThreads)
    clear_merge(const __grid_constant__ MergeMasksParams p, const MergeState state) {
  for (int64_t i = first_thread(); i < p.height * p.words; i += all_threads()) state.drawn[i] = 0;
  for (int64_t i = first_thread(); i <= p.masks.count; i += all_threads()) {
    state.masks[i] = 0;
    if (i < p.masks.count) state.covered[i] = 0;
  }
}

__global__ void __launch_bounds__(kThreads)
    count_covered(const __grid_constant__ MergeMasksParams p, const MergeState state,
                  const int64_t position) {
  const int64_t i = mask_at(p.order, p.masks.count, position);
  if (i < 0) return;
  const uint64_t* mask = p.masks.bits + i * p.height * p.words;
  int64_t count = 0;
  for (int64_t w = first_thread(); w < p.height * p.words; w += all_threads()) {
    count += __popcll(mask[w] & state.drawn[w]);
  }
  count = sum_over_warp(count);
  if (threadIdx.x % kWarp == 0 && count > 0) {
    atomicAdd(&state.covered[position], static_cast<unsigned long long>(count));
  }
}

__global__ void __launch_bounds__(kThreads)
    draw_mask(const __grid_constant__ MergeMasksParams p, const MergeState state,
              const int64_t position) {
  const int64_t i = mask_at(p.order, p.masks.count, position);
  const int32_t before = state.masks[position];
  const bool draws =
      i >= 0 && is_drawn(p, p.masks.areas[i], static_cast<int64_t>(state.covered[position]));
  if (first_thread() == 0) {
    state.masks[position + 1] = before + (draws ? 1 : 0);
    if (draws) p.ids[i] = before + 1;
  }
  if (!draws) return;
  const uint64_t* mask = p.masks.bits + i * p.height * p.words;
  for (int64_t at = first_thread(); at < p.height * p.words; at += all_threads()) {
    const int64_t y = at / p.words;
    uint64_t fresh = mask[at] & ~state.drawn[at] & pixels_of_word(p, at - y * p.words);
    if (fresh == 0) continue;
    state.drawn[at] |= fresh;
    int32_t* pixels = p.labels + y * p.width + (at - y * p.words) * kPixelsPerWord;
    for (; fresh != 0; fresh &= fresh - 1) {
      const uint64_t below = fresh ^ (fresh - 1);  // up to the lowest bit
      pixels[__popcll(below) - 1] = before + 1;
    }
  }
}

void merge_masks_cuda(const MergeMasksParams& p, Workspace& workspace) {
  const int64_t count = p.masks.count, size = p.height * p.words;
  MergeState state;
  state.covered = allocate<unsigned long long>(workspace, count);
  state.masks = allocate<int32_t>(workspace, count + 1);
  state.drawn = allocate<uint64_t>(workspace, size);
  void* stream = workspace.stream();
  const dim3 grid = grid_of_threads(size), threads(kThreads);
  launch(clear_merge, grid_of_threads(size > count ? size : count + 1), threads, 0, stream, p,
         state);
  for (int64_t position = 0; position < count; ++position) {
    launch(count_covered, grid, threads, 0, stream, p, state, position);
    launch(draw_mask, grid, threads, 0, stream, p, state, position);
  }
}

const bool suppresses_masks = suppress_masks_stub.set(kCudaSlot, suppress_masks_cuda);
const bool merges = merge_masks_stub.set(kCudaSlot, merge_masks_cuda);

}  // namespace
}  // namespace visops
