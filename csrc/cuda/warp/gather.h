// How a block gathers the gradient of a tile of the image: what affine and augment share.
//
// NOTE [ Image gradient by tiles ]
// Deterministic: no floating atomics, and every sum has one order, that of the CPU kernel. The
// warp's transpose scatters each output pixel's gradient to its taps. If many threads scattered at
// once, the additions to a source pixel could come in any order; so a thread owns a source pixel
// and adds what output pixels have for it in raster order, an output pixel's own taps row by row:
// exactly the order in which a single scattering thread adds them.
//
// Which output pixels those are takes two kernels.
//   - The first computes the taps of every output pixel once, and keeps the rectangle of source
//     pixels that they lie in, for bands of kBandRows output rows and for groups of kRun columns in
//     each. Each sample's map and each row's segments are computed in float64 before, once for
//     both.
//   - In the second, a block owns a tile of source pixels. It looks through the rectangles of all
//     bands, and in those that meet its tile through those of all groups. The pixels of groups that
//     meet it are the candidates. They come in raster order, a warp for each run of 32, and a
//     thread computes the taps of one and leaves them in shared memory. Then each thread adds what
//     is there for its source pixels: masks tell which candidates those are.
//
// So nothing is inverted, and perspective, horizon, saturated coordinates and padding take no case
// of their own: taps say where they are. A pixel is a candidate for the tiles that its group's
// rectangle meets, a few times what it is a tap of. Only a group scattered over the whole image,
// and not just over its border, is a candidate for every tile: a folding padding, with an image
// that repeats within 32 columns. Channels beyond the fourth reuse the taps.
//
// Additions to one source pixel are one chain, so a corner of replicate padding that stands for
// half of the output takes its time; but only to add, from shared memory. All else is in parallel.
#pragma once

#include <cstdint>

#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
#include "core/warp/affine.h"
#include "cuda/launch.h"
#include "cuda/tally.h"
#include "cuda/warp/bands.h"

namespace visops {
namespace {

constexpr int kRun = 32;  // columns of a candidate row: the lanes of a warp
constexpr int kGatherWarps = 4;
constexpr int kGatherThreads = kGatherWarps * kRun;
constexpr int kGatherWidth = 32, kGatherHeight = 16;  // source pixels of a tile
constexpr int kGatherChannels = 4;                    // whose sums a thread keeps at once
constexpr int kBandRows = 8;
constexpr int64_t kMostGroups = 256;  // of a band, listed in shared memory
static_assert(kSegment % kRun == 0, "a run lies in one segment");
static_assert(kSegment == kGatherThreads, "a thread for each pixel of a segment");

// Source pixels, all inclusive; none if right < left.
struct SourceBox {
  int32_t left, right, top, bottom;
};

VISOPS_FN SourceBox no_pixels() { return {INT32_MAX, -1, INT32_MAX, -1}; }

VISOPS_FN void add_box(const SourceBox& other, SourceBox* box) {
  if (other.left < box->left) box->left = other.left;
  if (other.right > box->right) box->right = other.right;
  if (other.top < box->top) box->top = other.top;
  if (other.bottom > box->bottom) box->bottom = other.bottom;
}

struct GatherPlan {
  int64_t batch, channels;
  int32_t width, height, output_width, output_height;
  int32_t tile_columns, tile_rows;  // of a sample
  int32_t bands, segments;          // of a sample, of a row
  int32_t groups, group_runs;       // of a band, of a group
};

// For sizes below 2^31.
inline GatherPlan gather_plan(int64_t batch, int64_t channels, int64_t height, int64_t width,
                              int64_t output_height, int64_t output_width) {
  GatherPlan plan;
  plan.batch = batch;
  plan.channels = channels;
  const auto parts = [](int64_t count, int64_t size) {
    return static_cast<int32_t>(parts_of(count, size));
  };
  plan.width = static_cast<int32_t>(width);
  plan.height = static_cast<int32_t>(height);
  plan.output_width = static_cast<int32_t>(output_width);
  plan.output_height = static_cast<int32_t>(output_height);
  plan.tile_columns = parts(width, kGatherWidth);
  plan.tile_rows = parts(height, kGatherHeight);
  plan.bands = parts(output_height, kBandRows);
  plan.segments = parts(output_width, kSegment);
  const int32_t runs = parts(output_width, kRun);
  plan.group_runs = runs > 0 ? parts(runs, kMostGroups) : 1;  // an empty gradient has none
  plan.groups = parts(runs, plan.group_runs);
  return plan;
}

// What the second kernel reads.
template <class Warp>
struct GatherScratch {
  const typename Warp::Sample* sample;    // [batch]
  const typename Warp::Segment* segment;  // [batch, output_height, segments]
  SourceBox* band;                        // [batch, bands]
  SourceBox* group;                       // [batch, bands, groups]
};

template <class Warp>
inline GatherScratch<Warp> gather_scratch(const GatherPlan& plan,
                                          const typename Warp::Sample* sample,
                                          const typename Warp::Segment* segment,
                                          Workspace& workspace) {
  const int64_t bands = plan.batch * plan.bands;
  return {sample, segment, allocate<SourceBox>(workspace, bands),
          allocate<SourceBox>(workspace, bands * plan.groups)};
}

// Rows that a band has.
VISOPS_FN int band_rows(const GatherPlan& plan, int32_t band) {
  const int32_t left = plan.output_height - band * kBandRows;
  return left < kBandRows ? left : kBandRows;
}

__device__ inline void add_box_at(const SourceBox& other, SourceBox* shared) {
  atomicMin(&shared->left, other.left);
  atomicMax(&shared->right, other.right);
  atomicMin(&shared->top, other.top);
  atomicMax(&shared->bottom, other.bottom);
}

// The boxes of bands of output rows, a band per block. `place(sample, band)` sees to it that the
// band's segments are in `scratch`, and returns the sample; it is called by all threads of the
// block.
template <class Warp, class Position>
__device__ void find_boxes(const Warp& warp, const GatherPlan& plan,
                           const GatherScratch<Warp>& scratch, const Position& position) {
  __shared__ SourceBox run_box[kGatherWarps];
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t i = blockIdx.x; i < plan.batch * plan.bands; i += gridDim.x) {
    const int64_t sample = i / plan.bands;
    const int32_t band = static_cast<int32_t>(i - sample * plan.bands), y0 = band * kBandRows;
    const int rows = band_rows(plan, band);
    if (thread < kGatherWarps) run_box[thread] = no_pixels();
    const typename Warp::Sample& s = position(sample, band);
    __syncthreads();
    SourceBox band_box = no_pixels(), group_box = no_pixels();  // the first thread's
    for (int32_t k = 0; k < plan.segments && !warp.is_blank(s); ++k) {
      if (k > 0) __syncthreads();  // the boxes are empty again
      const int64_t x = k * kSegment + thread;
      SourceBox box = no_pixels();
      for (int row = 0; x < plan.output_width && row < rows; ++row) {
        const int64_t at = (sample * plan.output_height + y0 + row) * plan.segments + k;
        warp.add_reach(s, scratch.segment[at], static_cast<int32_t>(x), y0 + row, &box);
      }
      if (box.left <= box.right) add_box_at(box, &run_box[thread / kRun]);
      __syncthreads();
      if (thread == 0) {
        const int64_t runs = parts_of(plan.output_width, kRun);
        for (int j = 0; j < kGatherWarps; ++j) {
          const int64_t run = int64_t{k} * kGatherWarps + j;
          add_box(run_box[j], &group_box);
          run_box[j] = no_pixels();
          if (run < runs && (run == runs - 1 || run % plan.group_runs == plan.group_runs - 1)) {
            scratch.group[i * plan.groups + run / plan.group_runs] = group_box;
            add_box(group_box, &band_box);
            group_box = no_pixels();
          }
        }
      }
    }
    if (thread == 0) scratch.band[i] = band_box;
    __syncthreads();  // before the next band's sample replaces this one
  }
}

// Bit i of lane j becomes bit j of lane i.
__device__ inline uint32_t transpose_bits(uint32_t bits) {
  const uint32_t lane = threadIdx.x % kRun;
  uint32_t low = 0x0000ffffu;  // the lower bits of each pair of fields
  for (int width = 16; width >= 1; width /= 2) {
    const uint32_t other = __shfl_xor_sync(0xffffffffu, bits, width);
    const bool upper = (lane & static_cast<uint32_t>(width)) != 0;
    bits =
        upper ? (bits & ~low) | ((other & ~low) >> width) : (bits & low) | ((other & low) << width);
    low ^= low << (width / 2);
  }
  return bits;
}

// Taps of kGatherThreads candidates, as a thread left them for the others.
template <Interpolation mode, class Acc>
struct TapLists {
  static constexpr int kTaps = tap_count(mode);
  int32_t column[kTaps][kGatherThreads], row[kTaps][kGatherThreads];
  Acc across[kTaps][kGatherThreads], down[kTaps][kGatherThreads];

  __device__ void put(int i, const PixelTaps<mode, Acc>& taps) {
    for (int k = 0; k < kTaps; ++k) {
      column[k][i] = taps.x.index[k];
      row[k][i] = taps.y.index[k];
      across[k][i] = taps.x.weight[k];
      down[k][i] = taps.y.weight[k];
    }
  }

  // add(weight) for each tap of candidate i on source pixel (x, y).
  template <class Warp, class Add>
  __device__ void each(const Warp&, const typename Warp::Sample&, int i, int32_t x, int32_t y,
                       const Add& add) const {
    for (int r = 0; r < kTaps; ++r) {
      if (row[r][i] != y) continue;
      for (int c = 0; c < kTaps; ++c) {
        if (column[c][i] == x) add(down[r][i] * across[c][i]);
      }
    }
  }
};

template <Interpolation mode, class Acc>
__device__ inline void add_taps(const PixelTaps<mode, Acc>& taps, SourceBox* box) {
  if (taps.outside()) return;
  for (int k = 0; k < tap_count(mode); ++k) {
    const int32_t x = taps.x.index[k], y = taps.y.index[k];
    if (x >= 0) add_box({x, x, INT32_MAX, -1}, box);
    if (y >= 0) add_box({INT32_MAX, -1, y, y}, box);
  }
}

// Which of `size` (up to 32) indices from `first` on a pixel has taps on.
template <Interpolation mode, class Acc>
__device__ inline uint32_t tap_mask(const AxisTaps<mode, Acc>& taps, int32_t first, int size) {
  uint32_t mask = 0;
  for (int k = 0; k < tap_count(mode); ++k) {
    const int32_t at = taps.index[k] - first;
    if (taps.index[k] >= 0 && at >= 0 && at < size) mask |= 1u << at;
  }
  return mask;
}

// Source pixels of a tile that a candidate has taps on: bits of its columns and rows.
struct TileMask {
  uint32_t columns, rows;
};

template <class Acc>
struct GatherShared {
  // Which candidates of each run have taps on a column, or row, of the tile; or on any of it.
  uint32_t on_column[kGatherWarps][kGatherWidth], on_row[kGatherWarps][kGatherWidth];
  uint32_t hits[kGatherWarps];
  uint32_t votes[kGatherWarps];
  uint32_t bands[kGatherWarps];  // that meet the tile
  int16_t groups[kMostGroups];   // likewise, of one band
  int group_count;
  Acc gradient[kGatherChannels][kGatherThreads];
};

// launch_part(first_sample, blocks), a block for each tile (x) of each sample (y).
template <class Launch>
void each_tile(const GatherPlan& plan, const Launch& launch_part) {
  each_band(plan.batch, int64_t{plan.tile_columns} * plan.tile_rows, 1, launch_part);
}

// A block's tile. `Lists` holds the candidates' taps, in shared memory.
template <class Warp, class Lists>
class GatherTile {
 public:
  using Acc = typename Warp::Acc;

  __device__ GatherTile(const Warp& warp, const GatherPlan& plan,
                        const GatherScratch<Warp>& scratch, int64_t sample,
                        GatherShared<Acc>& shared, Lists& lists)
      : warp_(warp),
        plan_(plan),
        scratch_(scratch),
        sample_(sample),
        shared_(shared),
        lists_(lists),
        left_(static_cast<int32_t>(blockIdx.x) % plan.tile_columns * kGatherWidth),
        top_(static_cast<int32_t>(blockIdx.x) / plan.tile_columns * kGatherHeight),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % kRun),
        number_(thread_ / kRun) {}

  // Called by all threads of the block, and synchronizes them.
  __device__ void run() {
    const bool blank = warp_.is_blank(scratch_.sample[sample_]);
    for (int32_t band0 = 0; band0 < plan_.bands && !blank; band0 += kGatherThreads) {
      const int32_t band = band0 + thread_;
      vote(band < plan_.bands && meets(scratch_.band[sample_ * plan_.bands + band]), shared_.bands);
      for (int w = 0; w < kGatherWarps; ++w) {
        for (uint32_t left = shared_.bands[w]; left != 0; left &= left - 1) {
          gather_band(band0 + w * kRun + __ffs(static_cast<int>(left)) - 1);
        }
      }
      __syncthreads();  // before the next bands replace these
    }
    for (int row = number_; row < kGatherHeight; row += kGatherWarps) {
      if ((begun_ >> row & 1u) != 0 || !exists(row)) continue;
      for (int64_t c = 0; c < plan_.channels; ++c) *at(c, row) = static_cast<Acc>(0);
    }
  }

 private:
  // Leaves the warps' answers in `votes`.
  __device__ void vote(bool passes, uint32_t votes[kGatherWarps]) {
    const uint32_t ballot = __ballot_sync(0xffffffffu, passes);
    if (lane_ == 0) votes[number_] = ballot;
    __syncthreads();
  }

  __device__ bool meets(const SourceBox& box) const {
    return box.left <= left_ + (kGatherWidth - 1) && box.right >= left_ &&
           box.top <= top_ + (kGatherHeight - 1) && box.bottom >= top_;
  }

  __device__ bool exists(int row) const {
    return left_ + lane_ < plan_.width && top_ + row < plan_.height;
  }

  __device__ Acc* at(int64_t channel, int row) const {
    return warp_.gradient_at(sample_, channel, top_ + row, left_ + lane_);
  }

  // Lists the groups of a band that meet the tile.
  __device__ void list_groups(int32_t band) {
    const SourceBox* boxes = scratch_.group + (sample_ * plan_.bands + band) * plan_.groups;
    int count = 0;
    for (int first = 0; first < plan_.groups; first += kGatherThreads) {
      const int group = first + thread_;
      const bool passes = group < plan_.groups && meets(boxes[group]);
      vote(passes, shared_.votes);
      int position = count;
      for (int w = 0; w < kGatherWarps; ++w) {
        const uint32_t ballot = shared_.votes[w];
        count += __popc(ballot);
        if (w < number_) position += __popc(ballot);
        if (w == number_) position += __popc(ballot & ((1u << lane_) - 1u));
      }
      if (passes) shared_.groups[position] = static_cast<int16_t>(group);
      if (thread_ == 0) shared_.group_count = count;
      __syncthreads();
    }
  }

  __device__ void gather_band(int32_t band) {
    list_groups(band);
    for (int first = 0;; first += kGatherWarps) {
      const int group_runs = plan_.group_runs, row_runs = shared_.group_count * group_runs;
      const int runs = band_rows(plan_, band) * row_runs;
      if (first >= runs) return;
      const int run = first + number_;
      int64_t x = plan_.output_width;
      int32_t y = 0;
      if (run < runs) {
        const int row = run / row_runs, rest = run - row * row_runs;
        const int64_t group = shared_.groups[rest / group_runs];
        x = (group * group_runs + rest % group_runs) * kRun + lane_;
        y = band * kBandRows + row;
      }
      gather_runs(x < plan_.output_width, static_cast<int32_t>(x), y);
    }
  }

  // One candidate per thread.
  __device__ void gather_runs(bool valid, int32_t x, int32_t y) {
    TileMask mask = {0, 0};
    if (valid) {
      tally();
      const int64_t row = sample_ * plan_.output_height + y;
      mask = warp_.list_taps(scratch_.sample[sample_],
                             scratch_.segment[row * plan_.segments + x / kSegment], x, y, left_,
                             top_, thread_, lists_);
    }
    const bool hit = mask.columns != 0 && mask.rows != 0;
    shared_.on_column[number_][lane_] = transpose_bits(hit ? mask.columns : 0);
    shared_.on_row[number_][lane_] = transpose_bits(hit ? mask.rows : 0);
    const uint32_t hits = __ballot_sync(0xffffffffu, hit);
    if (lane_ == 0) shared_.hits[number_] = hits;
    uint32_t touched = 0;
    for (int64_t channel = 0; channel < plan_.channels; channel += kGatherChannels) {
      const int64_t rest = plan_.channels - channel;
      const int channels = static_cast<int>(rest < kGatherChannels ? rest : kGatherChannels);
      for (int c = 0; hit && c < kGatherChannels; ++c) {
        shared_.gradient[c][thread_] =
            c < channels ? warp_.incoming(sample_, channel + c, y, x) : static_cast<Acc>(0);
      }
      __syncthreads();
      uint32_t some = 0;
      for (int w = 0; w < kGatherWarps; ++w) some |= shared_.hits[w];
      if (some != 0) touched = add_candidates(channel, channels);
      __syncthreads();  // before the next channels, or candidates, replace these
      if (some == 0) break;
    }
    begun_ |= touched;
  }

  // Adds what the candidates have for the thread's source pixels. Returns the rows (bits) that its
  // warp has touched.
  __device__ uint32_t add_candidates(int64_t channel, int channels) {
    uint32_t touched = 0;
    for (int row = number_; row < kGatherHeight; row += kGatherWarps) {
      uint32_t some = 0;
      for (int w = 0; w < kGatherWarps; ++w) some |= shared_.on_row[w][row];
      if (some == 0) continue;
      touched |= 1u << row;
      if (!exists(row)) continue;
      Acc sum[kGatherChannels] = {};
      for (int c = 0; c < kGatherChannels; ++c) {
        if (c < channels && (begun_ >> row & 1u) != 0) sum[c] = *at(channel + c, row);
      }
      for (int w = 0; w < kGatherWarps; ++w) {
        uint32_t mine = shared_.on_column[w][lane_] & shared_.on_row[w][row];
        for (; mine != 0; mine &= mine - 1) {
          const int i = w * kRun + __ffs(static_cast<int>(mine)) - 1;
          lists_.each(warp_, scratch_.sample[sample_], i, left_ + lane_, top_ + row,
                      [&](Acc weight) {
                        for (int c = 0; c < kGatherChannels; ++c) {
                          sum[c] += weight * shared_.gradient[c][i];
                        }
                      });
        }
      }
      for (int c = 0; c < kGatherChannels; ++c) {
        if (c < channels) *at(channel + c, row) = sum[c];
      }
    }
    return touched;
  }

  const Warp& warp_;
  const GatherPlan& plan_;
  const GatherScratch<Warp>& scratch_;
  const int64_t sample_;
  GatherShared<Acc>& shared_;
  Lists& lists_;
  const int32_t left_, top_;
  const int thread_, lane_, number_;  // number_: of the thread's warp
  uint32_t begun_ = 0;                // rows of the tile with sums in memory
};

}  // namespace
}  // namespace visops
