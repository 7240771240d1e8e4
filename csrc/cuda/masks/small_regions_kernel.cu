// Removal of small regions on CUDA.
//
// NOTE [ Small regions on CUDA ]
// Strategy: NOTE [ Components on CUDA ] links the pixels of regions to roots. Runs within pieces of
// rows add their lengths to the area of their root, the largest area of each mask is found, and a
// last kernel draws the regions that stay.
//
// Split: warps and threads stride over pieces of rows and pixels. Areas are sums of integers; the
// largest region is the maximum of (area, earliness). Neither depends on the order.
#include "core/dispatch/workspace.h"
#include "cuda/masks/forest.h"

namespace visops {
namespace {

using Rank = unsigned long long;

// Larger regions rank higher; of equal ones, earlier ones.
__device__ inline Rank rank_of(int32_t area, int32_t root) {
  return static_cast<Rank>(area) << 32 | static_cast<uint32_t>(~root);
}
__device__ inline int64_t area_of(Rank rank) { return static_cast<int64_t>(rank >> 32); }
__device__ inline int32_t root_of_rank(Rank rank) {
  return static_cast<int32_t>(~static_cast<uint32_t>(rank));
}

__global__ void __launch_bounds__(kThreads)
    clear_counts(const __grid_constant__ SmallRegionsParams p, int32_t* areas, Rank* largest) {
  const int64_t all = p.count * p.height * p.width;
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    areas[at] = 0;
    if (at >= p.count) continue;
    largest[at] = 0;
    p.changed[at] = 0;
  }
}

__global__ void __launch_bounds__(kThreads)
    count_areas(const ForestSize size, const int32_t* links, int32_t* areas) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t pieces = size.pieces(), all = size.count * size.height * pieces;
  for (int64_t piece = first_thread() / kWarp; piece < all; piece += all_threads() / kWarp) {
    const int64_t row = piece / pieces, x = (piece - row * pieces) * kWarp + lane;
    const int64_t at = row * size.width + x;
    const int32_t root = x < size.width ? links[at] : kOutside;
    const int32_t before = __shfl_up_sync(kWholeWarp, root, 1);
    const bool inside = root != kOutside;
    const bool starts = lane == 0 || before != root;
    const unsigned edges = __ballot_sync(kWholeWarp, starts);
    if (!inside || !starts) continue;
    const unsigned later = lane == kWarp - 1 ? 0 : edges >> (lane + 1);
    const int length = later == 0 ? kWarp - lane : __ffs(static_cast<int>(later));
    atomicAdd(areas + row / size.height * size.pixels() + root, length);
  }
}

__global__ void __launch_bounds__(kThreads)
    find_largest(const ForestSize size, const int32_t* areas, Rank* largest) {
  const int64_t all = size.count * size.pixels();
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    if (areas[at] == 0) continue;  // no root
    const int64_t mask = at / size.pixels();
    atomicMax(largest + mask, rank_of(areas[at], static_cast<int32_t>(at - mask * size.pixels())));
  }
}

__global__ void __launch_bounds__(kThreads)
    draw_regions(const __grid_constant__ SmallRegionsParams p, const int32_t* links,
                 const int32_t* areas, const Rank* largest) {
  const int64_t pixels = p.height * p.width, all = p.count * pixels;
  const uint8_t region = p.holes ? 0 : 1;
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    const int64_t mask = at / pixels;
    uint8_t value = 1 - region;
    if (links[at] != kOutside) {
      const Rank best = largest[mask];
      const bool stays =
          areas[mask * pixels + links[at]] >= p.min_area ||
          (!p.holes && area_of(best) < p.min_area && root_of_rank(best) == links[at]);
      if (stays) {
        value = region;
      } else {
        p.changed[mask] = 1;  // every thread that writes writes this
      }
    }
    p.cleaned[at] = value;
  }
}

void small_regions_cuda(const SmallRegionsParams& p, Workspace& workspace) {
  const ForestSize size = {p.count, p.height, p.width};
  const int64_t all = size.count * size.pixels(), pieces = size.count * size.height * size.pieces();
  void* stream = workspace.stream();
  int32_t* links = allocate<int32_t>(workspace, all);
  int32_t* areas = allocate<int32_t>(workspace, all);
  Rank* largest = allocate<Rank>(workspace, p.count);
  link_components(MaskPixels{p.masks, p.holes}, size, p.diagonal, links, stream);
  const dim3 threads(kThreads), grid = grid_of_threads(all);
  launch(clear_counts, grid, threads, 0, stream, p, areas, largest);
  launch(count_areas, grid_for((pieces + kWarps - 1) / kWarps), threads, 0, stream, size, links,
         areas);
  launch(find_largest, grid, threads, 0, stream, size, areas, largest);
  launch(draw_regions, grid, threads, 0, stream, p, links, areas, largest);
}

const bool registered = small_regions_stub.set(kCudaSlot, small_regions_cuda);

}  // namespace
}  // namespace visops
