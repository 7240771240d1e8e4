// Masks to runs on CUDA.
//
// NOTE [ Runs on CUDA ]
// Strategy: a thread has a column and goes down its pixels; those of its warp read neighbouring
// columns. Pixels are packed first, an eighth of the bytes for two passes. The first pass counts
// the changes of each column. Blocks add them up: tiles of kTile columns, then groups of kGroup
// tiles, so that each tile adds a few numbers to learn where it begins. The second pass writes
// where runs end. Between them the host learns how many there are.
//
// Split: threads stride over the columns of all masks. Sums are of integers, in fixed order.
//
// Assumes fewer than 2^31 pixels a mask. Bits past the width are ignored.
#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "core/masks/rle.h"
#include "cuda/masks/sums.h"

namespace visops {
namespace {

constexpr int64_t kPerThread = 4;
constexpr int64_t kTile = kThreads * kPerThread;  // columns
constexpr int64_t kGroup = kThreads;              // tiles

struct Columns {
  const uint64_t* bits;  // [count, height, words]
  int64_t count, height, width, words;

  __host__ __device__ int64_t all() const { return count * width; }
  __host__ __device__ int64_t tiles() const { return (all() + kTile - 1) / kTile; }
  __host__ __device__ int64_t groups() const { return (tiles() + kGroup - 1) / kGroup; }
};

// Calls change(y) where a pixel of a column differs from the one before it, which for the first is
// the last of the column on the left.
template <class Change>
__device__ inline void for_each_change(const Columns& c, int64_t mask, int64_t x,
                                       const Change& change) {
  const uint64_t* words = c.bits + mask * c.height * c.words;
  const auto bit = [&](int64_t column, int64_t y) {
    const uint64_t word = words[y * c.words + column / kPixelsPerWord];
    return static_cast<int>(word >> (column % kPixelsPerWord) & 1);
  };
  int before = x == 0 ? 0 : bit(x - 1, c.height - 1);
  for (int64_t y = 0; y < c.height; ++y) {
    const int here = bit(x, y);
    if (here != before) change(y);
    before = here;
  }
}

__global__ void __launch_bounds__(kThreads)
    count_changes(const __grid_constant__ Columns c, int32_t* changes) {
  for (int64_t at = first_thread(); at < c.all(); at += all_threads()) {
    const int64_t mask = at / c.width;
    int32_t found = 0;
    for_each_change(c, mask, at - mask * c.width, [&](int64_t) { ++found; });
    changes[at] = found;
  }
}

// The sums of tiles of `size` values each.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_tiles(const T* values, int64_t count, int64_t size, int64_t* sums) {
  __shared__ int64_t of_warp[kWarps];
  for (int64_t tile = blockIdx.x; tile * size < count; tile += gridDim.x) {
    int64_t sum = 0;
    for (int64_t k = threadIdx.x; k < size && tile * size + k < count; k += kThreads) {
      sum += values[tile * size + k];
    }
    sum = sum_of_block(sum, of_warp);
    if (threadIdx.x == 0) sums[tile] = sum;
  }
}

// Writes where each column's runs begin among all, and each mask's. The last run of a mask, which
// ends with it, is no change of a column.
__global__ void __launch_bounds__(kThreads)
    position_columns(const __grid_constant__ Columns c, const int32_t* changes,
                     const int64_t* of_tile, const int64_t* of_group, int64_t* positions,
                     int64_t* offsets) {
  __shared__ int64_t of_warp[kWarps];
  for (int64_t tile = blockIdx.x; tile < c.tiles(); tile += gridDim.x) {
    const int64_t group = tile / kGroup, neighbour = group * kGroup + threadIdx.x;
    int64_t before = neighbour < tile ? of_tile[neighbour] : 0;
    for (int64_t g = threadIdx.x; g < group; g += kThreads) before += of_group[g];
    before = sum_of_block(before, of_warp);
    const int64_t first = tile * kTile + threadIdx.x * kPerThread;  // of this thread's columns
    int64_t own = 0;
    for (int64_t at = first; at < first + kPerThread && at < c.all(); ++at) own += changes[at];
    before += sum_before(own, of_warp);
    for (int64_t at = first; at < first + kPerThread && at < c.all(); ++at) {
      const int64_t mask = at / c.width;
      positions[at] = before + mask;
      if (at == mask * c.width) offsets[mask] = before + mask;
      before += changes[at];
      if (at == c.all() - 1) offsets[c.count] = before + c.count;
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    write_ends(const __grid_constant__ Columns c, const int64_t* positions, int32_t* ends) {
  for (int64_t at = first_thread(); at < c.all(); at += all_threads()) {
    const int64_t mask = at / c.width, x = at - mask * c.width;
    int32_t* to = ends + positions[at];
    for_each_change(c, mask, x, [&](int64_t y) { *to++ = static_cast<int32_t>(x * c.height + y); });
    if (x == c.width - 1) *to = static_cast<int32_t>(c.height * c.width);
  }
}

void masks_to_runs_cuda(const MasksToRunsParams& p, Workspace& workspace) {
  const Columns c = {p.bits, p.count, p.height, p.width, words_of(p.width)};
  void* stream = workspace.stream();
  int32_t* changes = allocate<int32_t>(workspace, c.all());
  int64_t* positions = allocate<int64_t>(workspace, c.all());
  int64_t* of_tile = allocate<int64_t>(workspace, c.tiles());
  int64_t* of_group = allocate<int64_t>(workspace, c.groups());
  const dim3 threads(kThreads), columns = grid_of_threads(c.all());
  launch(count_changes, columns, threads, 0, stream, c, changes);
  launch(sum_tiles<int32_t>, grid_for(c.tiles()), threads, 0, stream, changes, c.all(), kTile,
         of_tile);
  launch(sum_tiles<int64_t>, grid_for(c.groups()), threads, 0, stream, of_tile, c.tiles(), kGroup,
         of_group);
  launch(position_columns, grid_for(c.tiles()), threads, 0, stream, c, changes, of_tile, of_group,
         positions, p.offsets);
  launch(write_ends, columns, threads, 0, stream, c, positions, p.make_ends(p.context));
}

const bool registered = masks_to_runs_stub.set(kCudaSlot, masks_to_runs_cuda);

}  // namespace
}  // namespace visops
