// How suppression on CUDA splits its candidates, and the memory that it needs.
//
// NOTE [ Tiles ]
// Positions in `order` are split into groups of 32, whose flags are the bits of a word, wherever
// segments begin. A segment's tile t has the groups [t T, (t + 1) T), counted from the segment's
// first group (T: tile_groups). Round t deals with tile t of all segments at once. So only in round
// 0 can a group have candidates of several segments; in later rounds it has at most one segment's.
//
// The host does not know the segments. In round 0 it starts work for every group. A segment that
// has a tile t > 0 is at least `spacing` = 32 t T - 30 long, so it contains a multiple of `spacing`
// among its positions. Work is started for every multiple, and the first one in a segment does it.
// All rounds together start work for O(count log(rounds)) candidates more than needed.
//
// There are as many rounds as the longest segment has tiles. Where nothing but an image's size
// bounds that, and many rounds would be empty, the host waits to read the longest segment's length
// if the front allows it (NmsParams::longest).
//
// Overlaps of a tile's candidates with each other take 128 bytes for each. They have slots for a
// million candidates at most: a round with more takes several passes, one after another.
#pragma once

#include "core/suppression/nms.h"
#include "core/suppression/scratch.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int64_t kNmsGroup = 32;  // candidates whose flags are the bits of a word
constexpr int64_t kNmsMostTileGroups = 32;
constexpr int kWarp = static_cast<int>(kNmsGroup);
constexpr unsigned kWholeWarp = 0xffffffffu;

// A candidate's entry in p.kept before its tile is resolved.
enum Status : uint8_t {
  kOut,    // suppressed, or never took part
  kIn,     // not suppressed so far
  kInert,  // overlaps nothing (is_inert())
};

// A kind of boxes, `Shape`, has
//   Number, Box              the type of the overlap, and the box that overlaps() takes
//   Stored, stored(box)      what memory holds of a box; .box() gives the box back
//   load(params, candidate)  a candidate's box
struct SegmentState {
  int64_t kept;    // so far
  int64_t listed;  // of those, boxes that can suppress
};

#if defined(VISOPS_SMALL_CONSTANTS)
// So small that tests see several rounds and passes, and threads with more than one part of the
// work.
constexpr int64_t kEnoughUnits = 16;
constexpr int64_t kMostSlots = 30;
constexpr int64_t kRoundsWorthAWait = 1;
static inline int64_t tile_groups_of(int64_t count) { return count <= 500 ? 12 : 3; }
#else
constexpr int64_t kEnoughUnits = 4096;            // blocks that keep a GPU busy
constexpr int64_t kMostSlots = int64_t{1} << 15;  // groups, of 4 KB each
constexpr int64_t kRoundsWorthAWait = 8;          // more launches take longer than reading a number
static inline int64_t tile_groups_of(int64_t) { return kNmsMostTileGroups; }
#endif

template <class Shape>
struct NmsScratch {
  // [count] in order. Resolving a tile moves the boxes that it keeps to the front of the segment,
  // over those that are done with.
  typename Shape::Stored* boxes;
  SegmentState* state;  // [count] at segments' first positions
  int64_t* first;       // [count] first position of the segment
  // [slots, tile_groups, 32] for a group (first index) and a candidate in it (last index): which
  // candidates of an earlier group g overlap it, as bits. The second index is g modulo tile_groups.
  uint32_t* overlaps;
  int64_t slots, tile_groups;

  NmsScratch(const NmsParams& p, Workspace& workspace) : tile_groups(tile_groups_of(p.count)) {
    using Stored = typename Shape::Stored;
    constexpr int64_t each = sizeof(Stored) + sizeof(SegmentState) + sizeof(int64_t);
    const int64_t groups = (p.count + kNmsGroup - 1) / kNmsGroup;
    // A sixteenth more, as items of later rounds are a little closer than tiles are long. Round 0
    // takes up to a tile more, for segments that begin in a pass and end beyond it.
    slots = (groups < kMostSlots ? groups + groups / 16 : kMostSlots) + 2 * tile_groups;
    const int64_t words = slots * tile_groups * kNmsGroup;
    char* memory =
        allocate<char>(workspace, p.count * each + words * static_cast<int64_t>(sizeof(uint32_t)));
    boxes = take_array<Stored>(&memory, p.count);
    state = take_array<SegmentState>(&memory, p.count);
    first = take_array<int64_t>(&memory, p.count);
    overlaps = take_array<uint32_t>(&memory, words);
  }

  int64_t rounds_of(const NmsParams& p, int64_t longest) const {
    const int64_t tile = tile_groups * kNmsGroup;
    const int64_t unaligned = longest + kNmsGroup - 1;  // it may begin anywhere in a group
    return ((unaligned < p.count ? unaligned : p.count) + tile - 1) / tile;
  }

  __device__ uint32_t* overlaps_of(int64_t slot, int64_t earlier) const {
    return overlaps + (slot * tile_groups + earlier % tile_groups) * kNmsGroup;
  }
};

// A pass of a round: the items [first_item, end_item).
struct Round {
  int64_t number;
  bool is_last;
  int64_t spacing;               // between the positions that stand for segments; 0 in round 0
  int64_t first_item, end_item;  // such positions; in round 0, groups

  // The slot of a group of an item, less the group. `tile_group` is the first of the item's tile.
  __device__ int64_t shift(int64_t item, int64_t tile_groups, int64_t tile_group) const {
    return number == 0 ? -first_item : (item - first_item) * tile_groups - tile_group;
  }
};

// The pass of a round that begins with `first_item`; without items where there is none.
template <class Shape>
Round pass_of(const NmsParams& p, const NmsScratch<Shape>& scratch, int64_t rounds, int64_t number,
              int64_t first_item) {
  Round round = {number, number + 1 == rounds, 0, first_item, 0};
  if (number > 0) round.spacing = number * scratch.tile_groups * kNmsGroup - (kNmsGroup - 2);
  const int64_t step = number > 0 ? round.spacing : kNmsGroup;
  const int64_t items = (p.count + step - 1) / step;
  const int64_t most =
      number > 0 ? scratch.slots / scratch.tile_groups : scratch.slots - (scratch.tile_groups - 1);
  round.end_item = items - first_item < most ? items : first_item + most;
  return round;
}

// The first position of the segment that an item of a round > 0 stands for; -1: none.
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
