// What a block knows of its box: the entries of each bin along either axis, listed in shared memory
// once for all channels.
#pragma once

#include "cuda/launch.h"
#include "cuda/roi/map.h"

namespace visops {
namespace {

constexpr int64_t kMostListBytes = 12288;  // for one axis

// Blocks of 256 threads per multiprocessor. Streaming kernels need many registers and see few
// boxes.
template <class T>
constexpr int blocks_at_once(bool listed) {
  return !listed ? 1 : sizeof(T) == 8 ? 2 : 3;
}

// A list in shared memory, or what is left of it. A Stream has the same `next` and finds its
// entries one by one; Stream::of() is that of a bin's rows or columns.
template <class Entry>
struct EntryList {
  const Entry* at;
  const Entry* end;

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
struct ListPlaces {
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

// A block's box, in shared memory.
template <class Acc>
struct ListedBox {
  Roi<Acc> roi;
  bool complete;  // whether the lists hold all bins

  // Whether the kernel that reads lists, or the one that streams, computes this box. The listing
  // kernel also writes the zeros of boxes that are not valid.
  __device__ bool is_for(bool listed) const { return listed == (complete || !roi.valid); }
};

template <class Stream>
__device__ void list_bin(Stream stream, int room, typename Stream::Entry* list, int32_t* count,
                         bool* complete) {
  typename Stream::Entry entry;
  int n = 0;
  while (stream.next(&entry)) {
    if (n == room) {
      *complete = false;
      return;
    }
    list[n++] = entry;
  }
  *count = n;
}

// Loads box k, and lists its bins for the kernel that reads lists; a thread lists one bin. That
// kernel notes which boxes it has done, so the other one makes no lists. Called by all threads of
// the block, which synchronise here.
template <class Stream, bool listed, class Acc>
__device__ ListPlaces<typename Stream::Entry> list_bins(const RoiAlignParams& p,
                                                        const ListRoom& room, int64_t k,
                                                        ListedBox<Acc>* box) {
  const ListPlaces<typename Stream::Entry> places = {p.bins_y, p.bins_x, room};
  const bool has_room = room.y > 0 && room.x > 0;
  if (threadIdx.x == 0) {
    box->roi = load_roi<Acc>(p, k);
    if (!box->roi.valid) box->roi.level = 0;  // level_of_box() may have found none
    box->complete = listed ? has_room : room.complete[k];
  }
  __syncthreads();
  if (!listed) return places;
  if (box->roi.valid && has_room) {
    for (int64_t i = threadIdx.x; i < p.bins_y + p.bins_x; i += blockDim.x) {
      const bool is_row = i < p.bins_y;  // rows and columns in one loop: a warp may have both
      const int64_t bin = is_row ? i : i - p.bins_y;
      list_bin(Stream::of(p, box->roi, is_row, bin), is_row ? room.y : room.x,
               is_row ? places.row(bin) : places.column(bin), places.row_count() + i,
               &box->complete);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0 && room.complete != nullptr) room.complete[k] = box->complete;
  return places;
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

// The most entries that a bin can have, given the number of samples; 0: no limit.
template <class Entry>
int64_t most_entries(const RoiAlignParams& p) {
  return p.sampling_ratio > 0 ? p.sampling_ratio * Entry::kOfSample : 0;
}

template <class Entry>
ListRoom list_rooms(const RoiAlignParams& p) {
  int64_t height = 0, width = 0;
  for (int64_t level = 0; level < p.levels; ++level) {
    if (p.maps[level].height > height) height = p.maps[level].height;
    if (p.maps[level].width > width) width = p.maps[level].width;
  }
  const int64_t most = most_entries<Entry>(p);
  return {list_room<Entry>(p.bins_y, height, most), list_room<Entry>(p.bins_x, width, most),
          nullptr};
}

template <class Entry>
size_t list_bytes(const RoiAlignParams& p, const ListRoom& room) {
  if (room.y == 0 || room.x == 0) return 0;
  return (p.bins_y * room.y + p.bins_x * room.x) * sizeof(Entry) +
         (p.bins_y + p.bins_x) * sizeof(int32_t);
}

template <class Entry>
bool may_lack_room(const RoiAlignParams& p, const ListRoom& room) {
  const int64_t most = most_entries<Entry>(p);
  return most == 0 || most > room.y || most > room.x;
}

// Launches listed(p, arguments..., room) and, if its lists may lack room for some boxes,
// streamed(p, arguments..., room), which finds entries as it goes.
template <class Entry, class Kernel, class... Arguments>
void launch_with_lists(Kernel listed, Kernel streamed, int64_t blocks, int threads,
                       Workspace& workspace, const RoiAlignParams& p,
                       const Arguments&... arguments) {
  ListRoom room = list_rooms<Entry>(p);
  const bool may_lack = may_lack_room<Entry>(p, room);
  if (may_lack) room.complete = allocate<bool>(workspace, p.boxes.count);
  const auto start = [&](Kernel kernel, size_t bytes) {
    launch(kernel, grid_for(blocks), dim3(threads), bytes, workspace.stream(), p, arguments...,
           room);
  };
  start(listed, list_bytes<Entry>(p, room));
  if (may_lack) start(streamed, 0);
}

}  // namespace
}  // namespace visops
