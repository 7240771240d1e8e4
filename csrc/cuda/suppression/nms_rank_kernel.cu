// The order of candidates on CUDA, where there are few.
//
// NOTE [ Ranks ]
// A candidate's place in an order is the number of candidates that come before it. Comparing each
// with all others of its image takes few thousand of them less time than sorting does, and gives
// all orders at once: by score (NOTE [ Order of scores ]), and group by group. A block has 32
// candidates, one a lane; its warps each compare them with an eighth of the others, which it
// has in shared memory 32 at a time. Assumes that the front has few enough for 32-bit numbers.

#include "core/suppression/nms.h"

#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "cuda/threads.h"

namespace visops {
namespace {

// How many candidates of the image come before one.
struct Ranks {
  int32_t by_score;  // with a better score
  int32_t in_group;  // of those, in its group
  int32_t lower;     // in groups before its own
};

// The group of number i of an image: an id, or a class.
__device__ inline int64_t group_of(const NmsRankParams& p, int64_t image, int64_t i) {
  return p.ids != nullptr ? p.ids[image * p.per_image + i] : i / p.per_image;
}

__device__ inline void place(const NmsRankParams& p, int64_t image, int64_t i, const Ranks& ranks) {
  const int64_t first = image * p.in_image();
  if (!p.has_groups()) {
    p.order[first + ranks.by_score] = i;
    return;
  }
  const int64_t segment = first + ranks.lower, at = segment + ranks.in_group;
  p.order[at] = first + i;
  p.segment[at] = segment;
  p.listed[first + ranks.by_score] = first + i;
  p.slot[first + ranks.by_score] = at;
}

template <class T, bool has_groups>
__global__ void __launch_bounds__(kThreads)
    nms_rank(const __grid_constant__ NmsRankParams p, const int64_t blocks,
             const int64_t image_blocks) {
  using Acc = typename Accumulate<T>::type;
  using Key = decltype(falling_key(Acc()));
  __shared__ Key keys[kThreads];
  __shared__ int64_t groups[has_groups ? kThreads : 1];
  __shared__ Ranks parts[kWarps][kWarp];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int count = static_cast<int>(p.in_image());
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t image = block / image_blocks;
    const int i = static_cast<int>(block - image * image_blocks) * kWarp + lane;
    const T* scores = static_cast<const T*>(p.scores) + image * count;
    const auto key_of = [&](int number) { return falling_key(Acc{load_element(scores + number)}); };
    const Key mine = i < count ? key_of(i) : Key{0};
    const int64_t group = has_groups && i < count ? group_of(p, image, i) : 0;
    Ranks ranks = {};
    for (int first = 0; first < count; first += kThreads) {
      const int loads = first + thread;
      if (loads < count) {
        keys[thread] = key_of(loads);
        if constexpr (has_groups) groups[thread] = group_of(p, image, loads);
      }
      __syncwarp();
      const int begin = first + warp * kWarp, left = count - begin;
      const int others = left < kWarp ? left : kWarp;
      for (int k = 0; k < others; ++k) {
        const Key other = keys[warp * kWarp + k];
        const bool is_before = other < mine || (other == mine && begin + k < i);
        ranks.by_score += is_before ? 1 : 0;
        if constexpr (has_groups) {
          const int64_t its = groups[warp * kWarp + k];
          ranks.in_group += is_before && its == group ? 1 : 0;
          ranks.lower += its < group ? 1 : 0;
        }
      }
      __syncwarp();  // before the next ones replace these
    }
    parts[warp][lane] = ranks;
    __syncthreads();
    if (warp == 0 && i < count) {
      for (int w = 1; w < kWarps; ++w) {
        ranks.by_score += parts[w][lane].by_score;
        ranks.in_group += parts[w][lane].in_group;
        ranks.lower += parts[w][lane].lower;
      }
      place(p, image, i, ranks);
    }
    __syncthreads();  // before the next parts replace these
  }
}

void nms_rank_cuda(const NmsRankParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const int64_t image_blocks = parts_of(p.in_image(), kWarp), blocks = p.images * image_blocks;
    launch(p.has_groups() ? nms_rank<T, true> : nms_rank<T, false>, grid_for(blocks),
           dim3(kThreads), 0, workspace.stream(), p, blocks, image_blocks);
  });
}

const bool registered = nms_rank_stub.set(kCudaSlot, nms_rank_cuda);

}  // namespace
}  // namespace visops
