// What a block knows of its box: the entries of each bin along either axis, listed in shared memory
// once for all channels.
#pragma once

#include <algorithm>

#include "cuda/launch.h"
#include "cuda/reload.h"
#include "cuda/roi/map_layout.h"

namespace visops {
namespace {

constexpr int64_t kMostListBytes = 12288;  // for one axis

// Blocks of 256 threads per multiprocessor.
template <class T>
constexpr int blocks_at_once() {
  return sizeof(T) == 8 ? 2 : 4;
}

// How far pixels lie from pixel 0 along an axis, in elements. Lists have 32-bit offsets; maps that
// need more (offsets_fit()) are left to the kernel that streams.
template <bool listed>
using PixelOffset = std::conditional_t<listed, int32_t, int64_t>;

// A list in shared memory, or what is left of it. A Stream has the same begin() and next(), and
// finds its entries one by one; Stream::of() is that of a bin's rows or columns.
template <class E>
struct EntryList {
  using Entry = E;
  const Entry* at;
  const Entry* end;

  __device__ EntryList begin() const { return *this; }
  __device__ bool next(Entry* entry) {
    if (at == end) return false;
    *entry = *at++;
    return true;
  }
};

// How many entries of a bin the lists can hold; 0: there are too many bins to list any.
struct ListRoom {
  int y, x;
  bool* complete;  // [boxes] written by the kernel that reads lists, for the one that streams
};

// Where the lists lie in dynamic shared memory. Computed, not stored, so that compilers know it is
// shared memory.
template <class Entry>
struct ListPositions {
  int64_t bins_y, bins_x;
  ListRoom room;

  __device__ Entry* row(int64_t bin) const {  // [bins_y, room.y]
    return dynamic_shared<Entry>() + bin * room.y;
  }
  __device__ Entry* column(int64_t bin) const {  // [bins_x, room.x]
    return row(bins_y) + bin * room.x;
  }
  __device__ int32_t* row_count() const {  // [bins_y], and columns' [bins_x]
    return reinterpret_cast<int32_t*>(column(bins_x));
  }
  __device__ int32_t* column_count() const {  // [bins_x]
    return row_count() + bins_y;
  }
  __device__ EntryList<Entry> row_list(int64_t bin) const {
    return {row(bin), row(bin) + row_count()[bin]};
  }
  __device__ EntryList<Entry> column_list(int64_t bin) const {
    return {column(bin), column(bin) + column_count()[bin]};
  }
};

template <class Acc>
__device__ RoiAxis<Acc> reload(const RoiAxis<Acc>& a) {
  return {reload(a.start), reload(a.bin), reload(a.bins), reload(a.extent), reload(a.grid)};
}

// A block's box, in shared memory.
template <class Acc>
struct ListedBox {
  Roi<Acc> roi;
  bool complete;  // whether the lists hold all bins

  __device__ const Roi<Acc>& load(const RoiAlignParams& p, const ListRoom& room, int64_t k,
                                  bool listed) {
    roi = load_box<Acc>(p, k);
    complete = listed ? room.y > 0 && room.x > 0 : room.complete[k];
    return roi;
  }

  // Whether the kernel that reads lists, or the one that streams, computes this box. The listing
  // kernel also writes the zeros of boxes that are not valid.
  __device__ bool is_for(bool listed) const { return listed == (complete || !roi.valid); }
};

template <class Stream>
__device__ void list_bin(const Stream& stream, int room, typename Stream::Entry* list,
                         int32_t* count, bool* complete) {
  typename Stream::Entry entry;
  int n = 0;
  for (auto rest = stream.begin(); rest.next(&entry);) {
    if (n == room) {
      *complete = false;
      return;
    }
    list[n++] = entry;
  }
  *count = n;
}

// Lists the bins of box k for the kernel that reads lists; a thread lists one bin. That kernel
// notes which boxes it has done, so the other one makes no lists. Called by all threads of the
// block, which synchronise here.
template <class Stream, bool listed, class Acc>
__device__ ListPositions<typename Stream::Entry> list_bins(const RoiAlignParams& p,
                                                           const ListRoom& room, int64_t k,
                                                           ListedBox<Acc>* box) {
  const ListPositions<typename Stream::Entry> positions = {p.bins_y, p.bins_x, room};
  if (!listed) return positions;
  if (box->roi.valid && room.y > 0 && room.x > 0) {
    for (int64_t i = threadIdx.x; i < p.bins_y + p.bins_x; i += blockDim.x) {
      const bool is_row = i < p.bins_y;  // rows and columns in one loop: a warp may have both
      const int64_t bin = is_row ? i : i - p.bins_y;
      list_bin(Stream::of(p, box->roi, is_row, static_cast<int32_t>(bin)), is_row ? room.y : room.x,
               is_row ? positions.row(bin) : positions.column(bin), positions.row_count() + i,
               &box->complete);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0 && room.complete != nullptr) room.complete[k] = box->complete;
  return positions;
}

// Room for the entries of a box as large as the map. No bin has more than `most_of_bin`; 0: no
// limit.
template <class Entry>
int list_room(int64_t bins, int64_t extent, int64_t most_of_bin) {
  const int64_t most = (kMostListBytes / bins - int64_t{sizeof(int32_t)}) / int64_t{sizeof(Entry)};
  int64_t room = extent / bins + 4;
  if (most_of_bin > 0 && most_of_bin < room) room = most_of_bin;
  room |= 1;  // lists an odd number of entries apart lie in different banks
  return static_cast<int>(room < most ? room : most > 0 ? most : 0);
}

// Whether 32 bits hold offsets on the maps, along each axis and between so many channels, and among
// a box's bins and indices.
inline bool offsets_fit(const RoiAlignParams& p, int64_t channels) {
  int64_t most = std::max(stretch_of_bins(p), stretch(p.channels, p.index_channel_stride) +
                                                  stretch(p.bins_y, p.index_row_stride) +
                                                  stretch(p.bins_x, p.index_column_stride));
  for (int64_t level = 0; level < p.levels; ++level) {
    const RoiMap& map = p.maps[level];
    most = std::max({most, stretch(channels, map.channel_stride),
                     stretch(map.height, map.row_stride), stretch(map.width, map.column_stride)});
  }
  return most <= INT32_MAX;
}

template <class Entry>
ListRoom list_rooms(const RoiAlignParams& p, int64_t channels, int64_t most) {
  if (!offsets_fit(p, channels)) return {0, 0, nullptr};
  int64_t height = 0, width = 0;
  for (int64_t level = 0; level < p.levels; ++level) {
    if (p.maps[level].height > height) height = p.maps[level].height;
    if (p.maps[level].width > width) width = p.maps[level].width;
  }
  return {list_room<Entry>(p.bins_y, height, most), list_room<Entry>(p.bins_x, width, most),
          nullptr};
}

template <class Entry>
size_t list_bytes(const RoiAlignParams& p, const ListRoom& room) {
  if (room.y == 0 || room.x == 0) return 0;
  return (p.bins_y * room.y + p.bins_x * room.x) * sizeof(Entry) +
         (p.bins_y + p.bins_x) * sizeof(int32_t);
}

// Launches listed(p, arguments..., room, first) and, if its lists may lack room for some boxes,
// streamed(p, arguments..., room, first), which finds entries as it goes. A sample makes at most
// `of_sample` entries. The kernel that lists has 32-bit offsets between `channels` of a map.
template <class Entry, int of_sample, class Kernel, class... Arguments>
void launch_with_lists(Kernel listed, Kernel streamed, int64_t blocks, int threads,
                       int64_t channels, Workspace& workspace, const RoiAlignParams& p,
                       const Arguments&... arguments) {
  const int64_t most = p.sampling_ratio > 0 ? p.sampling_ratio * of_sample : 0;
  ListRoom room = list_rooms<Entry>(p, channels, most);
  const bool may_lack = most == 0 || most > room.y || most > room.x;
  if (may_lack) room.complete = allocate<bool>(workspace, p.boxes.count);
  const auto start = [&](Kernel kernel, size_t bytes) {
    each_grid(blocks, [&](int64_t first, dim3 grid) {
      launch(kernel, grid, dim3(threads), bytes, workspace.stream(), p, arguments..., room, first);
    });
  };
  start(listed, list_bytes<Entry>(p, room));
  if (may_lack) start(streamed, 0);
}

}  // namespace
}  // namespace visops
