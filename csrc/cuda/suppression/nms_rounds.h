// Greedy suppression on CUDA, for every kind of boxes.
//
// NOTE [ Suppression on CUDA ]
// Strategy: tiles of at most 1024 candidates of a segment, one after another; all segments at once
// (NOTE [ Tiles ]). One kernel gathers boxes; then every round has
// two. `meet` tests a tile's candidates against the boxes that the segment has kept so far, and
// against each other; the latter gives a bit per pair. `resolve` decides by those bits, a block a
// tile and a warp for 32 candidates of it, and appends the boxes that it keeps to the segment's
// list. The host waits for nothing, or once for the longest segment's length. O(count) memory.
//
// Split: a block of `meet` has 32 candidates and a part of the boxes that they are tested against;
// there are as many parts as fill a GPU. Parts that see in time that a candidate is suppressed skip
// it. Which parts do is chance, but the result is not: the boxes kept before a candidate fix its
// fate.
//
// In `resolve`, candidates that overlap no undecided earlier one are kept, those that they overlap
// are out, and so on until none is left. Each step decides at least the first candidate that is
// left, so this ends where going through them in order would: a candidate is out if a kept one
// overlaps it, and kept if all earlier ones that do are out. A warp takes such steps alone as long
// as they are within its 32 candidates, which is at most as often as there are warps; it takes few
// steps where chains of overlaps are short.
//
// Rounding: NOTE [ Overlap ], without contraction (-fmad=false).
//
// Assumes what check_nms() and the fronts establish: every candidate's box exists, and equal
// numbers in `segment` are adjacent. Boxes need not be finite.
#pragma once

#include "core/suppression/nms.h"
#include "core/suppression/scratch.h"
#include "cuda/launch.h"
#include "cuda/suppression/segments.h"

namespace visops {
namespace {

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

constexpr int64_t kNmsGroup = 32;  // candidates whose flags are the bits of a word
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
constexpr int64_t kNmsMostTileGroups = 12;
constexpr int64_t kEnoughUnits = 16;
constexpr int64_t kMostSlots = 30;
constexpr int64_t kRoundsWorthAWait = 1;
static inline int64_t tile_groups_of(int64_t count) {
  return count <= 500 ? kNmsMostTileGroups : 3;
}
#else
constexpr int64_t kNmsMostTileGroups = 32;
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

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMostTileGroups = static_cast<int>(kNmsMostTileGroups);

// Flags that others may change meanwhile, in `meet`, or that a tile of another segment has, in
// `resolve`. Whoever reads them will do with either value; volatile makes that no race.
__device__ inline uint8_t load_flag(const uint8_t* flag) {
  return *static_cast<const volatile uint8_t*>(flag);
}
__device__ inline void store_flag(uint8_t* flag, int value) {
  *static_cast<volatile uint8_t*>(flag) = static_cast<uint8_t>(value);
}

template <class Shape>
__global__ void __launch_bounds__(kThreads)
    nms_prepare(const __grid_constant__ NmsParams p, const NmsScratch<Shape> scratch) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < p.count;
       i += stride) {
    const int64_t image = p.segment == nullptr ? i - i % p.per_image : 0;
    const int64_t candidate = image + p.order[i];
    const typename Shape::Box box = Shape::load(p, candidate);
    const bool inert = is_inert(box);
    const ScoreFilter& f = p.filter;
    const bool takes_part =
        f.scores == nullptr || load_coordinate<double>(f.scores, f.dtype, candidate) > f.threshold;
    p.kept[i] = !takes_part ? kOut : (inert ? kInert : kIn);
    scratch.boxes[i] = Shape::stored(box);
    const int64_t first = p.segment == nullptr ? image : first_of_segment(p.segment, i);
    scratch.first[i] = first;
    scratch.state[i] = {0, 0};
    if (p.longest.read == nullptr) continue;
    if (i + 1 < p.count && p.segment[i + 1] == p.segment[i]) continue;
    atomicMax(reinterpret_cast<unsigned long long*>(p.longest.length),
              static_cast<unsigned long long>(i + 1 - first));
  }
}

// The 32 candidates of a block of `meet`, in shared memory.
template <class Shape>
struct MeetGroup {
  typename Shape::Box box[kWarp];
  unsigned in;         // candidates to test, as bits
  unsigned met;        // of those, the ones found suppressed
  int64_t tile_group;  // the first group that they can meet
  int64_t listed;      // kept boxes that they can meet
  int64_t slot;        // of their overlaps
};

// Loads the candidates at 32 positions from `begin` on that belong to `segment` or, if that is -1,
// lie in the first tile of a segment that begins in this pass.
template <class Shape>
__device__ void load_group(const NmsParams& p, const NmsScratch<Shape>& scratch, const Round& round,
                           int64_t begin, int64_t segment, MeetGroup<Shape>* group) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t i = begin + lane, my_group = begin / kNmsGroup;
  int64_t first = 0;
  bool in = i < p.count && load_flag(p.kept + i) == kIn;
  if (in) {
    first = scratch.first[i];
    group->box[lane] = scratch.boxes[i].box();
    const int64_t first_group = first / kNmsGroup;
    in = segment >= 0 ? first == segment
                      : my_group - first_group < scratch.tile_groups &&
                            first_group >= round.first_item && first_group < round.end_item;
  }
  const unsigned all_in = __ballot_sync(kWholeWarp, in);
  if (all_in == 0) {
    if (lane == 0) group->in = 0;
    return;
  }
  if (lane != __ffs(static_cast<int>(all_in)) - 1)
    return;  // the lane of the earliest segment goes on
  group->in = all_in;
  group->met = 0;
  group->tile_group = my_group - (my_group - first / kNmsGroup) % scratch.tile_groups;
  group->listed = 0;
  if (segment < 0) return;
  const SegmentState state = scratch.state[segment];
  if (p.max_output >= 0 && state.kept >= p.max_output) group->in = 0;
  group->listed = state.listed;
}

// Tests against the segment's list, every `parts`-th 256 boxes of it. A thread has one box of the
// list at a time.
template <class Shape>
__device__ void meet_list(const NmsParams& p, const typename Shape::Stored* list,
                          typename Shape::Number threshold, int64_t begin, int64_t part,
                          int64_t parts, MeetGroup<Shape>* group) {
  unsigned left = group->in;
  for (int64_t at = part * kThreads; at < group->listed && left != 0; at += parts * kThreads) {
    unsigned met = 0;
    if (at + threadIdx.x < group->listed) {
      const typename Shape::Box kept = list[at + threadIdx.x].box();
      for (unsigned rest = left; rest != 0; rest &= rest - 1) {
        const int c = __ffs(static_cast<int>(rest)) - 1;
        if (overlaps(kept, group->box[c], threshold)) met |= 1u << c;
      }
    }
    if (met != 0) atomicOr(&group->met, met);
    __syncthreads();
    left = group->in & ~group->met;
    __syncthreads();
  }
  // Another part may be reading this. It sees the candidate in or out; either will do.
  if (threadIdx.x < kWarp && (group->met >> threadIdx.x & 1) != 0) {
    store_flag(p.kept + begin + threadIdx.x, kOut);
  }
}

// Tests against the candidates of the tile. A thread has one of the group's; a warp has every
// `parts` * 8-th group up to it, and its threads each write a word of bits. Bits for other segments
// are never read.
template <class Shape>
__device__ void meet_tile(const NmsParams& p, const NmsScratch<Shape>& scratch,
                          typename Shape::Number threshold, int64_t begin, int64_t part,
                          int64_t parts, const MeetGroup<Shape>& group) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t me = begin + lane, my_group = begin / kNmsGroup;
  const bool in = (group.in >> lane & 1) != 0;
  const typename Shape::Box mine = in ? group.box[lane] : typename Shape::Box{};
  for (int64_t g = group.tile_group + part * kWarps + threadIdx.x / kWarp; g <= my_group;
       g += parts * kWarps) {
    const int64_t other = g * kNmsGroup + lane;
    unsigned rest = __ballot_sync(kWholeWarp, other < p.count && load_flag(p.kept + other) == kIn);
    uint32_t met = 0;
    for (; rest != 0; rest &= rest - 1) {
      const int c = __ffs(static_cast<int>(rest)) - 1;
      const int64_t at = g * kNmsGroup + c;
      const typename Shape::Box earlier = scratch.boxes[at].box();
      if (at < me && overlaps(earlier, mine, threshold)) met |= 1u << c;
    }
    scratch.overlaps_of(group.slot, g)[lane] = met;
  }
}

// The work of a round in units of `meet`, a block each.
struct MeetGrid {
  int64_t groups;                  // of all items
  int64_t list_parts, tile_parts;  // of each group
};

template <class Shape>
__global__ void __launch_bounds__(kThreads)
    nms_meet(const __grid_constant__ NmsParams p, const NmsScratch<Shape> scratch,
             const Round round, const MeetGrid grid, const typename Shape::Number threshold) {
  __shared__ MeetGroup<Shape> group;
  const int64_t units = grid.groups * (grid.list_parts + grid.tile_parts);
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    // Groups vary fastest, so that later parts profit from what the first, best boxes suppress.
    const int64_t part = unit / grid.groups, g = unit - part * grid.groups;
    int64_t segment = -1, begin = (round.first_item + g) * kNmsGroup;
    if (round.number > 0) {
      const int64_t item = round.first_item + g / scratch.tile_groups;
      segment = segment_of_item(p, scratch.first, scratch.tile_groups, round, item);
      if (segment < 0) continue;  // the whole block
      const int64_t in_segment = round.number * scratch.tile_groups + g % scratch.tile_groups;
      begin = (segment / kNmsGroup + in_segment) * kNmsGroup;
    }
    if (threadIdx.x < kWarp) load_group(p, scratch, round, begin, segment, &group);
    if (threadIdx.x == 0) group.slot = g;
    __syncthreads();
    if (group.in != 0) {
      if (part < grid.list_parts) {
        meet_list(p, scratch.boxes + segment, threshold, begin, part, grid.list_parts, &group);
      } else {
        meet_tile(p, scratch, threshold, begin, part - grid.list_parts, grid.tile_parts, group);
      }
    }
    if (unit + gridDim.x < units) __syncthreads();  // before the next group replaces this one
  }
}

// The overlaps of this lane's candidate with earlier ones.
struct OverlapRow {
  uint32_t earlier[kMostTileGroups];  // in groups of the tile
  uint32_t own;                       // in its own group

  // For group `g` of the tile that begins with group `tile_group`, whose slot is `slot`.
  template <class Shape>
  __device__ void load(const NmsScratch<Shape>& scratch, int64_t tile_group, int64_t slot, int g,
                       int lane) {
    int64_t from = tile_group % scratch.tile_groups;
    const uint32_t* row = scratch.overlaps_of(slot + g, 0) + lane;
    for (int k = 0; k < kMostTileGroups; ++k) {
      earlier[k] = k < g ? row[from * kNmsGroup] : 0;
      from = from + 1 == scratch.tile_groups ? 0 : from + 1;
    }
    own = scratch.overlaps_of(slot + g, tile_group + g)[lane];
  }
};

__device__ inline int last_bit(unsigned word) { return 63 - __clzll(word); }

// What the warps of a block tell each other about a tile: words of its groups.
struct alignas(16) TileWords {
  unsigned undecided[kMostTileGroups];
  unsigned kept[kMostTileGroups];    // so far
  unsigned listed[kMostTileGroups];  // kept boxes that can suppress
};

// The bits of the words before `group`.
__device__ inline int64_t count_before(const unsigned (&words)[kMostTileGroups], int group) {
  int count = 0;
  for (int k = 0; k < group; ++k) count += __popc(words[k]);
  return count;
}

// Decides the candidates `in` of this warp's group, as all warps of the block do with theirs.
// Returns those that are kept, with `inert`. Each step finds what overlaps a kept box out, and goes
// on within the group, with candidates that overlap nothing undecided in earlier groups, to the
// end. So it decides at least the first undecided group.
__device__ inline unsigned resolve_groups(unsigned in, unsigned inert, const OverlapRow& row,
                                          int group, int lane, TileWords* words) {
  unsigned undecided = in, kept = inert;
  while (true) {
    if (lane == 0) {
      words->undecided[group] = undecided;
      words->kept[group] = kept;
    }
    __syncthreads();
    const bool is_open = lane < kMostTileGroups && words->undecided[lane] != 0;
    if (__ballot_sync(kWholeWarp, is_open) == 0) return kept;
    if (undecided != 0) {
      uint32_t met = 0, open = 0;
#pragma unroll
      for (int k = 0; k < kMostTileGroups; ++k) {
        met |= row.earlier[k] & words->kept[k];
        open |= row.earlier[k] & words->undecided[k];
      }
      undecided &= ~__ballot_sync(kWholeWarp, met != 0);
      const unsigned ready = __ballot_sync(kWholeWarp, open == 0);
      unsigned now = 0;
      do {
        const bool asks = (undecided >> lane & 1) != 0, is_ready = (ready >> lane & 1) != 0;
        now = __ballot_sync(kWholeWarp, asks && is_ready && (row.own & undecided) == 0);
        const unsigned out = __ballot_sync(kWholeWarp, asks && (row.own & now) != 0);
        kept |= now;
        undecided &= ~(now | out);
      } while (now != 0);
    }
    __syncthreads();  // before words change
  }
}

// Appends a tile's kept boxes to the list, in place: what that overwrites has been read.
template <class Shape>
__device__ void append(typename Shape::Stored* to, const typename Shape::Stored* from, bool takes) {
  typename Shape::Stored box;
  if (takes) box = *from;
  __syncthreads();
  if (takes) *to = box;
}

// Resolves the tile of `segment`; a warp has a group of it. Other segments that begin in the tile's
// first group of round 0, whose beginnings there are the bits `begins`, end in it, and are resolved
// with it.
template <class Shape>
__device__ void resolve_tile(const NmsParams& p, const NmsScratch<Shape>& scratch,
                             const Round& round, int64_t item, int64_t segment, unsigned begins,
                             TileWords* words) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = static_cast<int>(threadIdx.x) / kWarp;
  const unsigned lower = (1u << lane) - 1;
  const int64_t tile_group = segment / kNmsGroup + round.number * scratch.tile_groups;
  const int64_t i = (tile_group + group) * kNmsGroup + lane;
  const int64_t first = group < scratch.tile_groups && i < p.count ? scratch.first[i] : -1;
  // The lanes of this lane's segment, in this group, and those of `segment`.
  const unsigned up_to_here = group == 0 ? begins & (lower | 1u << lane) : 0;
  const unsigned later = group == 0 ? begins & ~(lower | 1u << lane) : 0;
  const int own_begin = up_to_here == 0 ? 0 : last_bit(up_to_here);
  const unsigned same = (later == 0 ? ~0u : (later & (0 - later)) - 1) & ~((1u << own_begin) - 1);
  const bool is_present = first == segment || (first >= 0 && up_to_here != 0);
  const unsigned of_tile = __ballot_sync(kWholeWarp, first == segment);

  const SegmentState state = scratch.state[segment];
  const int64_t room = p.max_output < 0 ? p.count : p.max_output - state.kept;
  const uint8_t status = is_present && room > 0 ? load_flag(p.kept + i) : uint8_t{kOut};
  const unsigned in = __ballot_sync(kWholeWarp, status == kIn);
  const unsigned inert = __ballot_sync(kWholeWarp, status == kInert);
  OverlapRow row = {};
  if (in != 0) {
    const int64_t slot = tile_group + round.shift(item, scratch.tile_groups, tile_group);
    row.load(scratch, tile_group, slot, group, lane);
    row.own &= same;
    // The tile's lanes in its first group.
    if (group > 0 && begins != 0) row.earlier[0] &= ~0u << last_bit(begins);
  }
  unsigned kept = resolve_groups(in, inert, row, group, lane, words);
  // Ranks of kept boxes in their segment.
  if (lane == 0) words->listed[group] = kept & of_tile;
  __syncthreads();
  int64_t before = __popc(kept & same & lower);
  if (first == segment) before += count_before(words->listed, group);
  kept = __ballot_sync(kWholeWarp, (kept >> lane & 1) != 0 && before < room);
  if (is_present) store_flag(p.kept + i, kept >> lane & 1);
  if (round.is_last) return;
  const int64_t all = count_before(words->listed, kMostTileGroups);
  __syncthreads();
  const unsigned listed = kept & of_tile & ~inert;
  if (lane == 0) words->listed[group] = listed;
  __syncthreads();
  const int64_t at = state.listed + count_before(words->listed, group) + __popc(listed & lower);
  append<Shape>(scratch.boxes + segment + at, scratch.boxes + i, (listed >> lane & 1) != 0);
  if (threadIdx.x == 0) {
    scratch.state[segment] = {state.kept + (all < room ? all : room),
                              state.listed + count_before(words->listed, kMostTileGroups)};
  }
}

// A block resolves a tile or, in round 0, the first tiles of the segments that begin in a group.
template <class Shape>
__global__ void __launch_bounds__(kMostTileGroups* kWarp)
    nms_resolve(const __grid_constant__ NmsParams p, const NmsScratch<Shape> scratch,
                const Round round) {
  __shared__ TileWords words;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t item = round.first_item + blockIdx.x; item < round.end_item; item += gridDim.x) {
    int64_t segment = -1;
    unsigned begins = 0;
    if (round.number > 0) {
      segment = segment_of_item(p, scratch.first, scratch.tile_groups, round, item);
    } else {
      const int64_t i = item * kNmsGroup + lane;
      begins = __ballot_sync(kWholeWarp, i < p.count && scratch.first[i] == i);
      if (begins != 0) segment = item * kNmsGroup + last_bit(begins);
    }
    if (segment < 0) continue;  // the whole block
    resolve_tile(p, scratch, round, item, segment, begins, &words);
  }
}

// Into how many parts, `most` at most, to split each group's work to keep a GPU busy.
int64_t parts_of(int64_t groups, int64_t most) {
  const int64_t wanted = kEnoughUnits / groups;
  return wanted < 1 ? 1 : (wanted < most ? wanted : most);
}

MeetGrid meet_grid(const NmsParams& p, const Round& round, int64_t tile_groups) {
  MeetGrid grid = {round.end_item - round.first_item, 0, 0};
  if (round.number > 0) {
    grid.groups *= tile_groups;
    const int64_t most_listed = round.number * tile_groups * kNmsGroup;
    grid.list_parts = parts_of(grid.groups, (most_listed + kThreads - 1) / kThreads);
  } else {
    // Tiles of the last segments that begin in this pass.
    const int64_t left = (p.count + kNmsGroup - 1) / kNmsGroup - round.end_item;
    grid.groups += left < tile_groups - 1 ? left : tile_groups - 1;
  }
  grid.tile_parts = parts_of(grid.groups, (tile_groups + kWarps - 1) / kWarps);
  return grid;
}

template <class Shape>
void launch_nms(const NmsParams& p, Workspace& workspace) {
  if (p.count == 0) return;
  const NmsScratch<Shape> scratch(p, workspace);
  void* stream = workspace.stream();
  const typename Shape::Number threshold = threshold_of(p.iou_threshold, typename Shape::Number());
  launch(nms_prepare<Shape>, grid_for((p.count + kThreads - 1) / kThreads), dim3(kThreads), 0,
         stream, p, scratch);
  int64_t rounds = scratch.rounds_of(p, p.per_image);
  if (p.longest.read != nullptr && rounds > kRoundsWorthAWait) {
    rounds = scratch.rounds_of(p, p.longest.read(p.longest.context));
  }
  for (int64_t number = 0; number < rounds; ++number) {
    int64_t next = 0;
    for (Round round = pass_of(p, scratch, rounds, number, next); round.first_item < round.end_item;
         round = pass_of(p, scratch, rounds, number, next)) {
      const MeetGrid grid = meet_grid(p, round, scratch.tile_groups);
      const int64_t items = round.end_item - round.first_item;
      launch(nms_meet<Shape>, grid_for(grid.groups * (grid.list_parts + grid.tile_parts)),
             dim3(kThreads), 0, stream, p, scratch, round, grid, threshold);
      launch(nms_resolve<Shape>, grid_for(items), dim3(kMostTileGroups * kWarp), 0, stream, p,
             scratch, round);
      next = round.end_item;
    }
  }
}

}  // namespace
}  // namespace visops
