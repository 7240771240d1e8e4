// Masks as bits on CUDA: packing, measuring, overlaps.
//
// NOTE [ Packed masks on CUDA ]
// Strategy: where every 16 pixels of a row are 16 aligned bytes, a lane reads those, and four lanes
// make a word of 64. Elsewhere neighbouring lanes read neighbouring pixels, and two ballots make a
// word. A block measures a mask, from words or from pixels, 16 at a time: threads have several
// loads under way, as most of what they read is 0 and takes no more than that. Warps find the least
// and largest rows and columns among theirs, and those meet in shared memory. A warp has a pair of
// masks, and counts the words that both boxes cover; of one set of masks it has one of two pairs.
//
// Split: warps stride over words and pairs, blocks over masks. Sums, minima and maxima are of
// integers, so any order will do; an overlap is one division, in float64, for each pair.
#include <cmath>

#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"
#include "cuda/threads.h"

namespace visops {
namespace {

constexpr int kNowhere = 0x7fffffff;  // beyond every row and column

// What a lane loads at once.
struct __attribute__((may_alias, aligned(16))) Words {
  uint32_t word[4];
};

// From memory that is not written while the kernel runs.
__device__ inline Words load_words(const void* at) {
#if defined(__CUDA_ARCH__)
  const uint4 words = __ldg(static_cast<const uint4*>(at));
  return {{words.x, words.y, words.z, words.w}};
#else
  return *static_cast<const Words*>(at);
#endif
}

__global__ void __launch_bounds__(kThreads) pack(const __grid_constant__ PackParams p) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t words = words_of(p.width);
  for (int64_t at = first_warp(); at < p.rows * words; at += all_warps()) {
    const int64_t row = at / words, first = (at - row * words) * kPixelsPerWord;
    uint64_t word = 0;
    for (int half = 0; half < 2; ++half) {
      const int64_t x = first + half * kWarp + lane;
      const bool inside = x < p.width && p.masks[row * p.width + x] != 0;
      word |= static_cast<uint64_t>(__ballot_sync(kWholeWarp, inside)) << (half * kWarp);
    }
    if (lane == 0) p.bits[at] = word;
  }
}

constexpr int kChunk = 16;  // pixels of a lane
constexpr int kChunksOfWord = static_cast<int>(kPixelsPerWord) / kChunk;

// Bit i: whether byte i of the four is not 0.
__device__ inline uint32_t nonzero_bytes(uint32_t bytes) {
  const uint32_t high = (((bytes & 0x7f7f7f7fu) + 0x7f7f7f7fu) | bytes) & 0x80808080u;
  return ((high >> 7) * 0x01020408u >> 24) & 0xfu;  // gathers bits 0, 8, 16 and 24
}

// Whether 16 pixels of a row are always 16 aligned bytes.
bool has_chunks(const PackParams& p) {
  return p.width % kChunk == 0 && reinterpret_cast<uintptr_t>(p.masks) % kChunk == 0;
}

__global__ void __launch_bounds__(kThreads)
    pack_chunks(const __grid_constant__ PackParams p, const Divisor<int32_t> words,
                const int32_t count) {
  const int part = static_cast<int>(threadIdx.x) % kChunksOfWord;
  const int32_t stride = static_cast<int32_t>(all_threads() / kChunksOfWord);
  // All lanes of a warp stay until its first word is beyond the last.
  const int32_t in_warp = static_cast<int32_t>(threadIdx.x % kWarp / kChunksOfWord);
  for (int32_t at = static_cast<int32_t>(first_thread() / kChunksOfWord); at - in_warp < count;
       at += stride) {
    uint64_t word = 0;
    if (at < count) {
      const int32_t row = words.divide(at);
      const int64_t x = int64_t{at - row * words.value} * kPixelsPerWord + part * kChunk;
      if (x < p.width) {
        const Words pixels = load_words(p.masks + row * p.width + x);
        for (int i = 0; i < 4; ++i) {
          word |= uint64_t{nonzero_bytes(pixels.word[i])} << (part * kChunk + 4 * i);
        }
      }
    }
    for (int step = 1; step < kChunksOfWord; step *= 2) {
      word |= __shfl_xor_sync(kWholeWarp, word, step);
    }
    if (part == 0 && at < count) p.bits[at] = word;
  }
}

__global__ void __launch_bounds__(kThreads) unpack(const __grid_constant__ UnpackParams p) {
  const int64_t words = words_of(p.width), stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       at < p.rows * p.width; at += stride) {
    const int64_t row = at / p.width, x = at - row * p.width;
    const uint64_t word = p.bits[row * words + x / kPixelsPerWord];
    p.masks[at] = static_cast<uint8_t>(word >> (x % kPixelsPerWord) & 1);
  }
}

constexpr int kMeasureThreads = 1024;  // there may be few masks
constexpr int kLoads = 4;              // of a thread, under way at once

// The least of a warp's numbers, in all of its lanes.
__device__ inline int least_of_warp(int number) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(kWholeWarp, number, step);
    number = other < number ? other : number;
  }
  return number;
}

// What a thread has seen of a mask.
struct Seen {
  unsigned long long area = 0;
  int left = kNowhere, top = kNowhere, right = 0, bottom = 0;

  // Pixels of row y from column x on; bit i is pixel x + i, and not all are 0.
  __device__ void add(int64_t y, int64_t x, uint64_t bits) {
    const uint64_t below = bits ^ (bits - 1);  // up to the lowest bit
    const int begin = static_cast<int>(x) + __popcll(below) - 1;
    const int end = static_cast<int>(x) + 64 - __clzll(static_cast<long long>(bits));
    area += static_cast<unsigned long long>(__popcll(bits));
    left = begin < left ? begin : left;
    right = end > right ? end : right;
    top = y < top ? static_cast<int>(y) : top;
    bottom = y >= bottom ? static_cast<int>(y) + 1 : bottom;
  }
};

// item(n) for n < count, kLoads of a thread's before use(n, item) for those.
template <class Item, class Use>
__device__ void each_item(int64_t count, const Item& item, const Use& use) {
  for (int64_t first = threadIdx.x; first < count; first += kLoads * kMeasureThreads) {
    decltype(item(first)) items[kLoads] = {};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t n = first + i * kMeasureThreads;
      if (n < count) items[i] = item(n);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) use(first + i * kMeasureThreads, items[i]);
  }
}

__device__ inline Seen see_bits(const MeasureParams& p, const uint64_t* words) {
  Seen seen;
  each_item(
      p.height * p.words, [&](int64_t n) { return words[n]; },
      [&](int64_t n, uint64_t word) {
        if (word == 0) return;
        const int64_t y = n / p.words;
        seen.add(y, (n - y * p.words) * kPixelsPerWord, word);
      });
  return seen;
}

__device__ inline Seen see_pixels(const MeasureParams& p, const uint8_t* pixels) {
  Seen seen;
  // Pixels from number `at` on, which may be of several rows.
  const auto add = [&](int64_t at, uint32_t bits) {
    while (bits != 0) {
      const int64_t y = at / p.width, x = at - y * p.width, room = p.width - x;
      const uint32_t here = room < kChunk ? bits & ((1u << room) - 1) : bits;
      if (here != 0) seen.add(y, x, here);
      if (room >= kChunk) return;
      bits >>= room;
      at += room;
    }
  };
  const int64_t count = p.height * p.width;
  const auto before = static_cast<int64_t>((0 - reinterpret_cast<uintptr_t>(pixels)) % kChunk);
  const int64_t head = before < count ? before : count, chunks = (count - head) / kChunk;
  each_item(
      chunks, [&](int64_t n) { return load_words(pixels + head + n * kChunk); },
      [&](int64_t n, const Words& words) {
        const uint32_t (&word)[4] = words.word;
        if ((word[0] | word[1] | word[2] | word[3]) == 0) return;
        uint32_t bits = 0;
        for (int i = 0; i < 4; ++i) bits |= nonzero_bytes(word[i]) << (4 * i);
        add(head + n * kChunk, bits);
      });
  // What lies before and after the aligned chunks.
  const int64_t thread = threadIdx.x, tail = head + chunks * kChunk;
  if (thread < head && pixels[thread] != 0) add(thread, 1);
  if (thread < count - tail && pixels[tail + thread] != 0) add(tail + thread, 1);
  return seen;
}

__global__ void __launch_bounds__(kMeasureThreads)
    measure(const __grid_constant__ MeasureParams p) {
  __shared__ unsigned long long area;
  __shared__ int x1, y1, x2, y2;
  for (int64_t i = blockIdx.x; i < p.count; i += gridDim.x) {
    if (threadIdx.x == 0) {
      area = 0;
      x1 = y1 = kNowhere;
      x2 = y2 = 0;
    }
    __syncthreads();
    Seen seen = p.pixels != nullptr ? see_pixels(p, p.pixels + i * p.height * p.width)
                                    : see_bits(p, p.bits + i * p.height * p.words);
    for (int step = kWarp / 2; step > 0; step /= 2) {
      seen.area += __shfl_xor_sync(kWholeWarp, seen.area, step);
    }
    const int left = least_of_warp(seen.left), top = least_of_warp(seen.top);
    const int right = -least_of_warp(-seen.right), bottom = -least_of_warp(-seen.bottom);
    if (seen.area > 0 && threadIdx.x % kWarp == 0) {
      atomicAdd(&area, seen.area);
      atomicMin(&x1, left);
      atomicMin(&y1, top);
      atomicMax(&x2, right);
      atomicMax(&y2, bottom);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      p.areas[i] = static_cast<int64_t>(area);
      p.boxes[i] = area == 0 ? MaskBox{0, 0, 0, 0} : MaskBox{x1, y1, x2, y2};
    }
    // Only thread 0 touches the sums before the next mask's first barrier.
  }
}

struct MaskPair {
  int64_t i, j;
};

// Pairs are numbered by i, then j; of one set of masks only those with j <= i.
__device__ inline MaskPair mask_pair(const MaskIouParams& p, int64_t number) {
  if (!p.is_one) {
    const int64_t i = number / p.second.count;
    return {i, number - i * p.second.count};
  }
  // Row i begins at i (i + 1) / 2; a root may be off by one.
  int64_t i = static_cast<int64_t>((sqrt(8.0 * static_cast<double>(number) + 1.0) - 1.0) * 0.5);
  if (i * (i + 1) / 2 > number) --i;
  if ((i + 1) * (i + 2) / 2 <= number) ++i;
  return {i, number - i * (i + 1) / 2};
}

// How many bits are set in both of two masks, in all lanes of the warp.
__device__ inline int64_t common_bits(const MaskIouParams& p, const MaskPair& pair) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const CommonWords common = common_words(p.first.boxes[pair.i], p.second.boxes[pair.j]);
  const int width = static_cast<int>(common.end - common.begin);
  const int64_t rows = common.y2 - common.y1, from = common.y1 * p.words + common.begin;
  const uint64_t* const first = p.first.bits + pair.i * p.height * p.words + from;
  const uint64_t* const second = p.second.bits + pair.j * p.height * p.words + from;
  // Lanes have whole rows, or columns of one row: a step is the same for all of them.
  const int across = width < kWarp ? width : kWarp, down = width > 0 ? kWarp / across : 0;
  int64_t count = 0;
  for (int x = width > 0 ? lane % across : 0; x < width; x += across) {
    const int row = lane / across;
    if (row >= down) break;  // lanes beyond the last whole row
    const int64_t start = row * p.words + x, step = down * p.words;
    const uint64_t *one = first + start, *two = second + start;
    const int own = (static_cast<int>(rows) - row + down - 1) / down;  // rows
#pragma unroll 4                                                       // loads under way at once
    for (int i = 0; i < own; ++i, one += step, two += step) count += __popcll(*one & *two);
  }
  for (int stride = kWarp / 2; stride > 0; stride /= 2) {
    count += __shfl_xor_sync(kWholeWarp, count, stride);
  }
  return count;
}

int64_t pair_count(const MaskIouParams& p) {
  const int64_t n = p.first.count;
  return p.is_one ? n * (n + 1) / 2 : n * p.second.count;
}

__global__ void __launch_bounds__(kThreads)
    overlaps(const __grid_constant__ MaskIouParams p, int64_t pairs) {
  for (int64_t number = first_warp(); number < pairs; number += all_warps()) {
    const MaskPair pair = mask_pair(p, number);
    const int64_t count = common_bits(p, pair);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t i = lane == 0 ? pair.i : pair.j, j = lane == 0 ? pair.j : pair.i;
    if (lane < (p.is_one ? 2 : 1)) {
      p.overlaps[i * p.second.count + j] = overlap_of(p, i, j, count);
    }
  }
}

void pack_cuda(const PackParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  const int64_t words = words_of(p.width), count = p.rows * words;
  // Indices go beyond the last word by one step of the grid.
  if (has_chunks(p) && count < int64_t{1} << 30) {
    launch(pack_chunks, grid_of_threads(count * kChunksOfWord), dim3(kThreads), 0, stream, p,
           divisor_of<int32_t>(words), static_cast<int32_t>(count));
  } else {
    launch(pack, grid_of_warps(count), dim3(kThreads), 0, stream, p);
  }
}
void unpack_cuda(const UnpackParams& p, Workspace& workspace) {
  launch(unpack, grid_for((p.rows * p.width + kThreads - 1) / kThreads), dim3(kThreads), 0,
         workspace.stream(), p);
}
void measure_cuda(const MeasureParams& p, Workspace& workspace) {
  launch(measure, grid_for(p.count), dim3(kMeasureThreads), 0, workspace.stream(), p);
}
void mask_iou_cuda(const MaskIouParams& p, Workspace& workspace) {
  const int64_t pairs = pair_count(p);
  launch(overlaps, grid_of_warps(pairs), dim3(kThreads), 0, workspace.stream(), p, pairs);
}

const bool packs = pack_stub.set(kCudaSlot, pack_cuda);
const bool unpacks = unpack_stub.set(kCudaSlot, unpack_cuda);
const bool measures = measure_stub.set(kCudaSlot, measure_cuda);
const bool compares = mask_iou_stub.set(kCudaSlot, mask_iou_cuda);

}  // namespace
}  // namespace visops
