// Masks as bits on CUDA: packing, measuring, overlaps.
//
// NOTE [ Packed masks on CUDA ]
// Strategy: neighbouring lanes read neighbouring pixels, and two ballots make a word of 64. A block
// measures a mask: lanes count words, and the least and largest rows and columns meet in shared
// memory. A warp has a pair of masks, and counts the words that both boxes cover.
//
// Split: warps stride over words and pairs, blocks over masks. Sums, minima and maxima are of
// integers, so any order will do; an overlap is one division, in float64, for each pair.
#include "core/masks/packed.h"
#include "core/workspace.h"
#include "cuda/masks/threads.h"

namespace visops {
namespace {

constexpr int kNowhere = 0x7fffffff;  // beyond every row and column

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

__global__ void __launch_bounds__(kThreads) unpack(const __grid_constant__ UnpackParams p) {
  const int64_t words = words_of(p.width), stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       at < p.rows * p.width; at += stride) {
    const int64_t row = at / p.width, x = at - row * p.width;
    const uint64_t word = p.bits[row * words + x / kPixelsPerWord];
    p.masks[at] = static_cast<uint8_t>(word >> (x % kPixelsPerWord) & 1);
  }
}

__global__ void __launch_bounds__(kThreads) measure(const __grid_constant__ MeasureParams p) {
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
    for (int64_t at = threadIdx.x; at < p.height * p.words; at += kThreads) {
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
    if (own > 0) {
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
    const int64_t width = common.end - common.begin;
    const int64_t words = width > 0 ? width * (common.y2 - common.y1) : 0;
    int64_t count = 0;
    for (int64_t k = lane; k < words; k += kWarp) {
      const int64_t y = common.y1 + k / width, w = common.begin + k % width;
      count += __popcll(p.first.bits[(i * p.height + y) * p.words + w] &
                        p.second.bits[(j * p.height + y) * p.words + w]);
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      count += __shfl_xor_sync(kWholeWarp, count, step);
    }
    if (lane == 0) p.overlaps[pair] = overlap_of(p, i, j, count);
  }
}

void pack_cuda(const PackParams& p, void* stream) {
  launch(pack, grid_of_warps(p.rows * words_of(p.width)), dim3(kThreads), 0, stream, p);
}
void unpack_cuda(const UnpackParams& p, void* stream) {
  launch(unpack, grid_for((p.rows * p.width + kThreads - 1) / kThreads), dim3(kThreads), 0, stream,
         p);
}
void measure_cuda(const MeasureParams& p, Workspace& workspace) {
  launch(measure, grid_for(p.count), dim3(kThreads), 0, workspace.stream(), p);
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
