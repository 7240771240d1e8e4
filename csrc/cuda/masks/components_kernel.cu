// Connected components on CUDA.
//
// NOTE [ Numbers of components on CUDA ]
// Strategy: NOTE [ Components on CUDA ] links pixels to roots. The number of a root is how many
// roots come before it, plus 1: blocks count the roots of tiles of kTile pixels, then those of
// groups of kGroup tiles, so that each tile adds up a few numbers to learn where it begins. Roots
// keep their number where their link was, below kOutside, until the last kernel has looked it up.
//
// Split: blocks stride over tiles, in the raster order of pixels. Sums are of integers, in fixed
// order.
//
// Assumes what the front established: masks are contiguous, with fewer than 2^31 pixels each.
#include "core/dispatch/workspace.h"
#include "cuda/masks/forest.h"
#include "cuda/masks/sums.h"

namespace visops {
namespace {

constexpr int64_t kPerThread = 4;
constexpr int64_t kTile = kThreads * kPerThread;
constexpr int64_t kGroup = kThreads;  // tiles

struct Tiles {
  ForestSize size;
  int64_t tiles, groups;  // of a mask

  explicit Tiles(const ForestSize& of)
      : size(of), tiles((of.pixels() + kTile - 1) / kTile), groups((tiles + kGroup - 1) / kGroup) {}
};

__device__ inline bool is_root(const int32_t* tree, int64_t pixel) {
  return tree[pixel] == static_cast<int32_t>(pixel);
}

__global__ void __launch_bounds__(kThreads)
    count_roots(const Tiles t, const int32_t* links, int32_t* of_tile) {
  __shared__ int32_t of_warp[kWarps];
  for (int64_t tile = blockIdx.x; tile < t.size.count * t.tiles; tile += gridDim.x) {
    const int64_t mask = tile / t.tiles, begin = (tile - mask * t.tiles) * kTile;
    const int32_t* tree = links + mask * t.size.pixels();
    int32_t roots = 0;
    for (int64_t k = 0; k < kPerThread; ++k) {
      const int64_t pixel = begin + k * kThreads + threadIdx.x;
      roots += pixel < t.size.pixels() && is_root(tree, pixel) ? 1 : 0;
    }
    roots = sum_of_block(roots, of_warp);
    if (threadIdx.x == 0) of_tile[tile] = roots;
  }
}

__global__ void __launch_bounds__(kThreads)
    count_groups(const Tiles t, const int32_t* of_tile, int32_t* of_group) {
  __shared__ int32_t of_warp[kWarps];
  for (int64_t group = blockIdx.x; group < t.size.count * t.groups; group += gridDim.x) {
    const int64_t mask = group / t.groups;
    const int64_t tile = (group - mask * t.groups) * kGroup + threadIdx.x;
    const int32_t roots =
        sum_of_block(tile < t.tiles ? of_tile[mask * t.tiles + tile] : 0, of_warp);
    if (threadIdx.x == 0) of_group[group] = roots;
  }
}

// Where roots are, writes numbers below kOutside.
__global__ void __launch_bounds__(kThreads)
    number_roots(const Tiles t, const int32_t* of_tile, const int32_t* of_group, int32_t* links,
                 int32_t* found) {
  __shared__ int32_t of_warp[kWarps];
  for (int64_t tile = blockIdx.x; tile < t.size.count * t.tiles; tile += gridDim.x) {
    const int64_t mask = tile / t.tiles, own = tile - mask * t.tiles, group = own / kGroup;
    const int64_t neighbour = group * kGroup + threadIdx.x;
    int32_t before = neighbour < own ? of_tile[mask * t.tiles + neighbour] : 0;
    for (int64_t g = threadIdx.x; g < group; g += kThreads) {
      before += of_group[mask * t.groups + g];
    }
    before = sum_of_block(before, of_warp);
    int32_t* tree = links + mask * t.size.pixels();
    const int64_t first = own * kTile + threadIdx.x * kPerThread;  // of this thread's pixels
    int32_t roots = 0;
    for (int64_t pixel = first; pixel < first + kPerThread; ++pixel) {
      roots += pixel < t.size.pixels() && is_root(tree, pixel) ? 1 : 0;
    }
    int32_t number = before + sum_before(roots, of_warp);
    for (int64_t pixel = first; pixel < first + kPerThread; ++pixel) {
      if (pixel < t.size.pixels() && is_root(tree, pixel)) tree[pixel] = kOutside - ++number;
    }
    if (own == t.tiles - 1 && threadIdx.x == kThreads - 1) found[mask] = number;
  }
}

__global__ void __launch_bounds__(kThreads)
    write_numbers(const ForestSize size, const int32_t* links, int32_t* labels) {
  const int64_t all = size.count * size.pixels();
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    int32_t link = links[at];
    if (link >= 0) link = links[at / size.pixels() * size.pixels() + link];
    labels[at] = kOutside - link;  // 0 outside
  }
}

template <class Pixels>
void label_masks(const ComponentsParams& p, const Pixels& pixels, Workspace& workspace) {
  const ForestSize size = {p.count, p.height, p.width};
  const Tiles t(size);
  void* stream = workspace.stream();
  int32_t* links = allocate<int32_t>(workspace, size.count * size.pixels());
  int32_t* of_tile = allocate<int32_t>(workspace, size.count * t.tiles);
  int32_t* of_group = allocate<int32_t>(workspace, size.count * t.groups);
  link_components(pixels, size, p.diagonal, links, stream);
  const dim3 threads(kThreads);
  launch(count_roots, grid_for(size.count * t.tiles), threads, 0, stream, t, links, of_tile);
  launch(count_groups, grid_for(size.count * t.groups), threads, 0, stream, t, of_tile, of_group);
  launch(number_roots, grid_for(size.count * t.tiles), threads, 0, stream, t, of_tile, of_group,
         links, p.found);
  launch(write_numbers, grid_of_threads(size.count * size.pixels()), threads, 0, stream, size,
         links, p.labels);
}

template <class T>
void label_maps(const ComponentsParams& p, Workspace& workspace) {
  label_masks(p, LabelPixels<T>{static_cast<const T*>(p.masks)}, workspace);
}

void components_cuda(const ComponentsParams& p, Workspace& workspace) {
  if (p.dtype == DType::kBool) {
    const MaskPixels pixels = {static_cast<const uint8_t*>(p.masks), false};
    return label_masks(p, pixels, workspace);
  }
  switch (element_size(p.dtype)) {
    case 1: return label_maps<uint8_t>(p, workspace);
    case 2: return label_maps<uint16_t>(p, workspace);
    case 4: return label_maps<uint32_t>(p, workspace);
    default: return label_maps<uint64_t>(p, workspace);
  }
}

const bool registered = components_stub.set(kCudaSlot, components_cuda);

}  // namespace
}  // namespace visops
