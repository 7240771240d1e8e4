// Masks as bits on CUDA: packing, measuring, overlaps.
//
// NOTE [ Packed masks on CUDA ]
// Strategy: where every 16 pixels of a row are 16 aligned bytes, a lane reads those, and four lanes
// make a word of 64. Elsewhere neighbouring lanes read neighbouring pixels, and two ballots make a
// word. A block measures a mask: lanes count words, warps find the least and largest rows and
// columns among theirs, and those meet in shared memory. A warp has a pair of masks, and counts the
// words that both boxes cover.
//
// Split: warps stride over words and pairs, blocks over masks. Sums, minima and maxima are of
// integers, so any order will do; an overlap is one division, in float64, for each pair.
#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"
#include "cuda/masks/threads.h"

namespace visops {
namespace {

constexpr int kNowhere = 0x7fffffff;  // beyond every row and column

// What a lane loads at once.
#if defined(_MSC_VER)
struct alignas(16) Words {
#else
struct __attribute__((may_alias, aligned(16))) Words {
#endif
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

constexpr int kMeasureThreads = 512;  // there may be few masks

// The least of a warp's numbers, in all of its lanes.
__device__ inline int least_of_warp(int number) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(kWholeWarp, number, step);
    number = other < number ? other : number;
  }
  return number;
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
    unsigned long long own = 0;
    int left = kNowhere, top = kNowhere, right = 0, bottom = 0;
    for (int64_t at = threadIdx.x; at < p.height * p.words; at += kMeasureThreads) {
      const uint64_t word = p.bits[i * p.height * p.words + at];
      if (word == 0) continue;
      const int64_t y = at / p.words, first = (at - y * p.words) * kPixelsPerWord;
      const uint64_t below = word ^ (word - 1);  // up to the lowest bit
      uint64_t filled = word;                    // up to the highest bit
      for (int step = 1; step < 64; step *= 2) filled |= filled >> step;
      const int begin = static_cast<int>(first) + __popcll(below) - 1;
      const int end = static_cast<int>(first) + __popcll(filled);
      own += static_cast<unsigned long long>(__popcll(word));
      left = begin < left ? begin : left;
      right = end > right ? end : right;
      top = y < top ? static_cast<int>(y) : top;
      bottom = static_cast<int>(y) + 1;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      own += __shfl_xor_sync(kWholeWarp, own, step);
    }
    left = least_of_warp(left);
    top = least_of_warp(top);
    right = -least_of_warp(-right);
    bottom = -least_of_warp(-bottom);
    if (own > 0 && threadIdx.x % kWarp == 0) {
      atomicAdd(&area, own);
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

__global__ void __launch_bounds__(kThreads) overlaps(const __grid_constant__ MaskIouParams p) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t pair = first_warp(); pair < p.first.count * p.second.count; pair += all_warps()) {
    const int64_t i = pair / p.second.count, j = pair - i * p.second.count;
    const CommonWords common = common_words(p.first.boxes[i], p.second.boxes[j]);
    // Lanes walk on by rows and columns: a division for each word would take most of the time.
    const int width = static_cast<int>(common.end - common.begin);
    const int rows = width > 0 ? static_cast<int>(common.y2 - common.y1) : 0;
    const int down = width > 0 ? kWarp / width : 0, across = kWarp - down * width;
    const int64_t from = common.y1 * p.words + common.begin;
    const uint64_t* const first = p.first.bits + i * p.height * p.words + from;
    const uint64_t* const second = p.second.bits + j * p.height * p.words + from;
    int y = width > 0 ? lane / width : 0, x = lane - y * width;
    int64_t count = 0;
    while (y < rows) {
      const int64_t at = y * p.words + x;
      count += __popcll(first[at] & second[at]);
      x += across;
      y += down;
      if (x < width) continue;
      x -= width;
      ++y;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      count += __shfl_xor_sync(kWholeWarp, count, step);
    }
    if (lane == 0) p.overlaps[pair] = overlap_of(p, i, j, count);
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
  launch(overlaps, grid_of_warps(p.first.count * p.second.count), dim3(kThreads), 0,
         workspace.stream(), p);
}

const bool packs = pack_stub.set(kCudaSlot, pack_cuda);
const bool unpacks = unpack_stub.set(kCudaSlot, unpack_cuda);
const bool measures = measure_stub.set(kCudaSlot, measure_cuda);
const bool compares = mask_iou_stub.set(kCudaSlot, mask_iou_cuda);

}  // namespace
}  // namespace visops
