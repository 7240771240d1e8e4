// How suppression on CUDA cuts its candidates, and what it keeps of them.
//
// NOTE [ Tiles ]
// Positions in `order` are cut into groups of 32, whose flags fit the bits of a word, wherever
// segments begin. A segment's tile t has groups [t T, (t + 1) T) of those from the segment's first
// group on (T: tile_groups). Round t deals with tile t of all segments at once. So a group has
// candidates of several segments in round 0 only; each later round finds at most one segment there.
//
// The host does not know the segments. In round 0 it starts work for every group. A segment that
// has a tile t > 0 is at least `spacing` = 32 t T - 30 long, and so has a multiple of that among
// its positions: work is started for every multiple, and the segment's first one does it. All
// rounds together start work for O(count log(rounds)) candidates beside what is needed.
#pragma once

#include "core/suppression/nms_scratch.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kWarp = static_cast<int>(kNmsGroup);
constexpr unsigned kWholeWarp = 0xffffffffu;

// What p.kept says of a candidate before its tile is resolved.
enum Status : uint8_t {
  kOut,    // suppressed, or never took part
  kIn,     // not suppressed so far
  kInert,  // meets nobody (is_inert())
};

template <class Acc>
struct alignas(4 * sizeof(Acc)) Corners {
  Acc x1, y1, x2, y2;

  __device__ Box<Acc> box() const {
    Box<Acc> box = {x1, y1, x2, y2, 0};
    box.area = (x2 - x1) * (y2 - y1);  // as load_box()
    return box;
  }
};

// Kinds of boxes: how they are loaded, stored, and what their overlap is compared with.
template <class Acc>
struct AxisAligned {
  using Number = Acc;
  using Box = visops::Box<Acc>;
  using Stored = Corners<Acc>;

  static __device__ Box load(const NmsParams& p, int64_t candidate) {
    return candidate_box<Acc>(p, candidate);
  }
  static __device__ Stored stored(const Box& box) { return {box.x1, box.y1, box.x2, box.y2}; }
};

struct StoredRotated {
  RotatedBox whole;
  __device__ const RotatedBox& box() const { return whole; }
};

struct Rotated {
  using Number = double;
  using Box = RotatedBox;
  using Stored = StoredRotated;

  static __device__ Box load(const NmsParams& p, int64_t candidate) {
    return rotated_candidate_box(p, candidate);
  }
  static __device__ Stored stored(const Box& box) { return {box}; }
};

struct SegmentState {
  int64_t kept;    // so far
  int64_t listed;  // those of them that can suppress
};

template <class Shape>
struct NmsScratch {
  // [count] in order; resolving a tile moves the boxes that it keeps to the front of the segment,
  // over those that are done with.
  typename Shape::Stored* boxes;
  SegmentState* state;  // [count] at segments' first positions
  int64_t* first;       // [count] of the segment
  // [groups, tile_groups, 32] the candidates of group `g` that overlap a later candidate, which is
  // the last index, as bits; g modulo tile_groups is the second index.
  uint32_t* overlaps;
  int64_t tile_groups;

  NmsScratch(const NmsParams& p, int64_t tile_groups) : tile_groups(tile_groups) {
    char* at = static_cast<char*>(p.scratch);
    boxes = reinterpret_cast<typename Shape::Stored*>(at);
    at += p.count * static_cast<int64_t>(sizeof(typename Shape::Stored));
    state = reinterpret_cast<SegmentState*>(at);
    at += p.count * static_cast<int64_t>(sizeof(SegmentState));
    first = reinterpret_cast<int64_t*>(at);
    at += p.count * static_cast<int64_t>(sizeof(int64_t));
    overlaps = reinterpret_cast<uint32_t*>(at);
  }

  __device__ uint32_t* overlaps_of(int64_t group, int64_t earlier) const {
    return overlaps + (group * tile_groups + earlier % tile_groups) * kNmsGroup;
  }
};

#if defined(VISOPS_CUDA_EMULATION)
// So small that tests see several rounds, and threads with more than one part of the work.
constexpr int64_t kEnoughUnits = 16;
static inline int64_t tile_groups_of(int64_t count) { return count <= 500 ? 12 : 3; }
#else
constexpr int64_t kEnoughUnits = 4096;  // blocks that keep a GPU busy
static inline int64_t tile_groups_of(int64_t count) { return nms_tile_groups(count); }
#endif

struct Round {
  int64_t number;
  bool is_last;
  int64_t spacing;  // of the positions that stand for segments; 0 in round 0
  int64_t items;    // such positions; in round 0, groups
};

static inline int64_t count_rounds(const NmsParams& p, int64_t tile_groups) {
  const int64_t tile = tile_groups * kNmsGroup;
  // A segment has at most one candidate for each box of an image.
  const int64_t unaligned = p.per_image + kNmsGroup - 1;
  return ((unaligned < p.count ? unaligned : p.count) + tile - 1) / tile;
}

static inline Round round_of(const NmsParams& p, int64_t tile_groups, int64_t number) {
  Round round = {number, number + 1 == count_rounds(p, tile_groups), 0, 0};
  if (number > 0) round.spacing = number * tile_groups * kNmsGroup - (kNmsGroup - 2);
  const int64_t step = number > 0 ? round.spacing : kNmsGroup;
  round.items = (p.count + step - 1) / step;
  return round;
}

// First position of the segment whose tile an item of a round > 0 is; -1: of none.
__device__ inline int64_t segment_of_item(const NmsParams& p, const int64_t* first,
                                          int64_t tile_groups, const Round& round, int64_t item) {
  const int64_t at = item * round.spacing;
  const int64_t segment = first[at];
  if (at - segment >= round.spacing) return -1;
  const int64_t tile = (segment / kNmsGroup + round.number * tile_groups) * kNmsGroup;
  return tile < p.count && first[tile] == segment ? segment : -1;
}

}  // namespace
}  // namespace visops
