// Union-find over the pixels of masks, on CUDA.
//
// NOTE [ Components on CUDA ]
// Strategy: links lead to earlier pixels of the same mask (NOTE [ Components ]). A warp links the
// 32 pixels of a piece of a row to the first pixels of their runs. Then each thread joins its pixel
// with neighbours on the left and above, leaving out what others join, and a third kernel replaces
// links by roots. The order of unions differs from run to run, the roots don't: a root is the first
// pixel of its component.
//
// Links of a mask begin at the mask's own first pixel; kOutside marks pixels that connect with
// nobody. Threads read links that others change: they find an older link then, which leads to the
// same tree.
#pragma once

#include "core/masks/components.h"
#include "cuda/threads.h"

namespace visops {
namespace {

constexpr int32_t kOutside = -1;

// Masks in which pixels connect if they are not 0 or, where `inverted`, if they are.
struct MaskPixels {
  const uint8_t* masks;
  bool inverted;
  __device__ bool inside(int64_t at) const { return (masks[at] != 0) != inverted; }
  __device__ bool same(int64_t, int64_t other) const { return inside(other); }
};

// Label maps, in which pixels connect if they are equal and not 0.
template <class T>
struct LabelPixels {
  const T* masks;
  __device__ bool inside(int64_t at) const { return masks[at] != 0; }
  // The first pixel is inside.
  __device__ bool same(int64_t at, int64_t other) const { return masks[at] == masks[other]; }
};

struct ForestSize {
  int64_t count, height, width;
  __host__ __device__ int64_t pixels() const { return height * width; }
  __host__ __device__ int64_t pieces() const { return (width + kWarp - 1) / kWarp; }
};

// For a lane of a piece of a row: whether it is inside, and in which lane its run begins.
struct LaneRun {
  bool inside;
  int begin;
};

// The position of the highest bit of a number that is not 0.
__device__ inline int highest_bit(unsigned bits) {
  for (int step = 1; step < kWarp; step *= 2) bits |= bits >> step;
  return __popc(bits) - 1;
}

// All lanes of a warp call this. `starts` is whether a run begins in this lane.
__device__ inline LaneRun run_of_lane(int lane, bool inside, bool starts) {
  const unsigned begins = __ballot_sync(kWholeWarp, inside && starts);
  const unsigned until = begins & (kWholeWarp >> (kWarp - 1 - lane));
  return {inside, inside ? highest_bit(until) : lane};
}

template <class Pixels>
__global__ void __launch_bounds__(kThreads)
    link_runs(const Pixels pixels, const ForestSize size, int32_t* links) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t pieces = size.pieces(), all = size.count * size.height * pieces;
  for (int64_t piece = first_thread() / kWarp; piece < all; piece += all_threads() / kWarp) {
    const int64_t row = piece / pieces, x = (piece - row * pieces) * kWarp + lane;
    const int64_t at = row * size.width + x;
    const bool inside = x < size.width && pixels.inside(at);
    const bool starts = inside && (lane == 0 || !pixels.inside(at - 1) || !pixels.same(at - 1, at));
    const LaneRun run = run_of_lane(lane, inside, starts);
    if (x >= size.width) continue;
    const int64_t own = at - row / size.height * size.pixels();
    links[at] = inside ? static_cast<int32_t>(own - lane + run.begin) : kOutside;
  }
}

__device__ inline int32_t root_of(const int32_t* links, int32_t at) {
  const volatile int32_t* current = links;
  for (int32_t next = current[at]; next != at; next = current[at]) at = next;
  return at;
}

// Joins the trees of two pixels of a mask.
__device__ inline void join_trees(int32_t* links, int32_t a, int32_t b) {
  for (;;) {
    a = root_of(links, a);
    b = root_of(links, b);
    if (a == b) return;
    const int32_t later = a > b ? a : b, earlier = a > b ? b : a;
    const int32_t before = atomicMin(links + later, earlier);
    if (before == later) return;  // it was a root
    a = before;                   // another thread has linked it meanwhile
    b = earlier;
  }
}

template <class Pixels>
__global__ void __launch_bounds__(kThreads)
    join_neighbours(const Pixels pixels, const ForestSize size, const bool diagonal,
                    int32_t* links) {
  const int64_t all = size.count * size.pixels();
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    if (!pixels.inside(at)) continue;
    const int64_t mask = at / size.pixels(), own = at - mask * size.pixels();
    const int64_t y = own / size.width, x = own - y * size.width;
    int32_t* tree = links + mask * size.pixels();
    const auto self = static_cast<int32_t>(own);
    const auto width = static_cast<int32_t>(size.width);
    const bool left = x > 0 && pixels.same(at, at - 1);
    if (left && x % kWarp == 0) join_trees(tree, self, self - 1);
    if (y == 0) continue;
    const int64_t above = at - size.width;
    const bool above_left = x > 0 && pixels.same(at, above - 1);
    if (pixels.same(at, above)) {
      // The pixel on the left joins the same two trees.
      if (!(left && above_left)) join_trees(tree, self, self - width);
      continue;
    }
    if (!diagonal) continue;
    if (above_left && !left) join_trees(tree, self, self - width - 1);
    const bool last = x + 1 == size.width;
    if (last || pixels.same(at, at + 1)) continue;  // the pixel on the right joins them
    if (pixels.same(at, above + 1)) join_trees(tree, self, self - width + 1);
  }
}

__global__ void __launch_bounds__(kThreads) find_roots(const ForestSize size, int32_t* links) {
  const int64_t all = size.count * size.pixels();
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    if (links[at] == kOutside) continue;
    int32_t* tree = links + at / size.pixels() * size.pixels();
    // Others may read it meanwhile.
    *static_cast<volatile int32_t*>(links + at) = root_of(tree, links[at]);
  }
}

// Links every pixel to the first one of its component. Scratch: links [count, height, width].
template <class Pixels>
void link_components(const Pixels& pixels, const ForestSize& size, bool diagonal, int32_t* links,
                     void* stream) {
  const dim3 threads(kThreads), grid = grid_of_threads(size.count * size.pixels());
  const int64_t pieces = size.count * size.height * size.pieces();
  launch(link_runs<Pixels>, grid_of_warps(pieces), threads, 0, stream, pixels, size, links);
  launch(join_neighbours<Pixels>, grid, threads, 0, stream, pixels, size, diagonal, links);
  launch(find_roots, grid, threads, 0, stream, size, links);
}

}  // namespace
}  // namespace visops
