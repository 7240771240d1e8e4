// antialias where maps are upright: the kernel.
//
// NOTE [ Upright filter on CUDA ]
// A filter of n x n taps is separable, and NOTE [ One augmented pixel ] sums tap rows first: for a
// tap column j, v_j = sum_i wy_i p_ij. Where the map is upright, all pixels of an output row have
// the same wy and share their tap columns. So a block takes a tile of the output, and its threads
// walk down the columns of the source that the tile reads: each adds a word of every row, of four
// uint8 elements (or up to four words, of one element), to the sums of the output rows that have
// this row as a tap. Few are open at a time: a tent reaches two, and kOpen leaves one more, since
// rows come in pairs. So an element is read once by a walk, and two rows are on their way while two
// are added.
//
// A row that has all its taps is closed: its sums go to shared memory. When there is no room for
// more of them, the walk is over, and each thread adds for some pixels of a column those that are
// its taps, from left to right. Sums have the terms and the order of augment_forward(), and so its
// bits. Taps that only multiply uint8 elements by 0 are left out. The next walk reads the rows
// again that it shares with this one; sums that outlived a walk would take registers from pixels.
//
// What a pair of rows means to the open ones (RowPair) is found by a thread a pair, for kPairs of
// them. Rows that can't be open together, as of an image that is enlarged along y, are left to
// another walk. Columns of a tile that don't fit into the block's words are taken in pieces, and if
// those of one pixel don't fit, in several walks.
//
// Words are read whole where a row has them whole, from two words where it doesn't begin at one.
// At the image's ends, where padding folds columns, and where elements lie apart, their elements
// are read one by one.
//
// In integers, two tap rows are added at once: a dot product of two 16-bit weights with two bytes
// is exact.
#pragma once

#include "cuda/byte_products.h"
#include "cuda/warp/augment_filter_tile.h"
#include "cuda/warp/tall_tiles.h"
#include "cuda/warp_extremes.h"

namespace visops {
namespace {

// A thread's words of the source rows. Word i of the thread is number `threadIdx.x +
// i kFilterThreads` of all runs'; where words have several elements, there is one.
template <class F>
struct FilterWords {
  using T = typename F::T;
  using Word = typename F::Word;
  static constexpr int kParts = F::kParts;
  static_assert(F::kWords == 1 || kParts == 1, "one word is read in parts");

  // In the image's first row; of a word that is read element by element, where the plane begins.
  const char* at[F::kWords];
  int64_t apart;  // from element to element of such a word, in bytes
  bool in_parts;
  int used;  // words of the warp's threads; what the last ones sum instead is lost

  // `first` is the group's first channel.
  __device__ FilterWords(const AugmentParams& p, int64_t first, const FilterRuns& runs,
                         FilterTile<F>* tile) {
    const AugmentImage& image = tile->sample.image;
    const auto* const data = static_cast<const T*>(image.data) + first * image.channel_stride;
    const int total = runs.count * runs.words, thread = static_cast<int>(threadIdx.x);
    const int left = total - (thread - thread % kWarp);
    used = left > 0 ? (left + kFilterThreads - 1) / kFilterThreads : 0;
    in_parts = false;
    apart = (runs.step > 1 ? 1 : image.column_stride) * int64_t{sizeof(T)};
#pragma unroll
    for (int i = 0; i < F::kWords; ++i) {
      const int own = thread + i * kFilterThreads;
      const int word = own < total ? own : total / 2;  // one that is likely whole
      const int run = runs.words > 0 ? word / runs.words : 0;
      const int begin = (word - run * runs.words) * kParts - runs.skipped;
      const T* const plane = data + run * image.channel_stride;
      if constexpr (kParts == 1) {
        const int channel = begin % runs.step;
        at[i] = reinterpret_cast<const char*>(plane +
                                              runs.column(p, *tile, begin) * image.column_stride +
                                              channel * image.channel_stride);
      } else {
        in_parts = !runs.has_whole(*tile, begin, kParts);
        const int64_t place = (tile->x.origin + runs.first) * runs.step + begin;
        at[i] = reinterpret_cast<const char*>(in_parts ? plane : plane + place);
        if (in_parts) list_elements(p, runs, begin, own, tile);
      }
    }
    const bool lies_so = kParts == 1 || (runs.aligned && !in_parts);
    const bool all_do = __all_sync(0xffffffffu, lies_so) != 0;
    if (thread % kWarp == 0) tile->reads_parts[thread / kWarp] = !all_do;
  }

  __device__ static Word load(const char* from) {
    return load_readonly(reinterpret_cast<const Word*>(from));
  }

  // The word, element by element.
  __device__ Word load_elements(const FilterTile<F>& tile, const char* from) const {
    const int32_t* const element = tile.element + static_cast<int>(threadIdx.x) * kParts;
    Word part[kParts], word = 0;
#pragma unroll
    for (int j = 0; j < kParts; ++j) {  // all on their way at once
      part[j] = 0;
      if (element[j] >= 0) {
        part[j] = bits_of(load_readonly(reinterpret_cast<const T*>(from + element[j] * apart)));
      }
    }
#pragma unroll
    for (int j = 0; j < kParts; ++j) word |= part[j] << (8 * int{sizeof(T)} * j);
    return word;
  }

 private:
  // Lists the elements of the word, which begins at a run's element `begin`. Not inlined: that
  // would take registers.
  static __device__ VISOPS_NOINLINE void list_elements(const AugmentParams& p,
                                                       const FilterRuns& runs, int begin, int own,
                                                       FilterTile<F>* tile) {
#pragma unroll 1
    for (int j = 0; j < kParts; ++j) {
      const int element = begin + j;
      const bool is_there = element >= 0 && element < runs.columns * runs.step;
      tile->element[own * kParts + j] =
          is_there ? static_cast<int32_t>(runs.column(p, *tile, element)) * runs.step +
                         element % runs.step
                   : -1;
    }
  }

  __device__ static uint32_t bits_of(uint8_t element) { return element; }
  template <class Sixteen>
  __device__ static uint32_t bits_of(Sixteen element) {
    return element.bits;
  }
};

// A thread's sums of the open rows, of up to kWords words. `as_they_lie`: all words of the block
// are read so.
template <class F, int kWords, bool as_they_lie>
struct FilterWalk {
  using T = typename F::T;
  using Acc = typename F::Acc;
  using Sum = typename F::Sum;
  using Word = typename F::Word;
  using Offsets = typename RowPair<F>::Offsets;
  static constexpr int kParts = F::kParts, kOpen = F::kOpen;

  const FilterWords<F>& own;
  // The next pair of rows; and the words behind, where rows don't begin at words.
  Word next[2][kWords], behind[2][kWords];
  Sum sum[kOpen][kWords][kParts] = {};

  __device__ explicit FilterWalk(const FilterWords<F>& words) : own(words) {}

  // use(i) for the thread's words, if there are any.
  template <class Use>
  __device__ void each_word(const Use& use) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (i > 0 && i >= own.used) break;
      use(i);
    }
  }

  // Row j of a pair. What is loaded is used as late as possible, but for elements that are read one
  // by one.
  __device__ void load(const FilterTile<F>& tile, const Offsets& offset, int j) {
    each_word([&](int i) {
      const char* const from = own.at[i] + offset.of[j];
      if constexpr (as_they_lie) {
        next[j][i] = own.load(from);
      } else if (own.in_parts) {
        next[j][i] = own.load_elements(tile, from);
      } else {
        const auto past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % sizeof(Word));
        next[j][i] = own.load(from - past);
        if (past != 0) behind[j][i] = own.load(from - past + sizeof(Word));
      }
    });
  }

  // What load() has read.
  __device__ Word word(const Offsets& offset, int j, int i) const {
    if constexpr (as_they_lie) return next[j][i];
    const auto low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(own.at[i]) + offset.of[j]);
    const uint32_t past = own.in_parts ? 0 : low % uint32_t{sizeof(Word)};
    return __funnelshift_r(next[j][i], behind[j][i], 8 * past);
  }

  // Adds what has been loaded of a pair to its `rows`. The next one, which follows it, is on its
  // way as soon as there is room.
  __device__ void add(const FilterTile<F>& tile, const RowPair<F>* pair,
                      const typename RowPair<F>::Rows& rows) {
    const Offsets offset = pair[0].offset, ahead = pair[1].offset;
    if constexpr (F::kIntegers) {
      // p - 128 is a signed byte. Two rows' bytes in turn, for two products at once.
      const uint32_t above = word(offset, 0, 0), below = word(offset, 1, 0);
      const auto one = static_cast<int>(__byte_perm(above, below, 0x5140) ^ 0x80808080u);
      const auto two = static_cast<int>(__byte_perm(above, below, 0x7362) ^ 0x80808080u);
      load(tile, ahead, 0);
      load(tile, ahead, 1);
#pragma unroll
      for (int slot = 0; slot < kOpen; ++slot) {
        const int weights = bit_cast<int>(rows.weight[slot]);
        Sum(&own_sum)[kParts] = sum[slot][0];
        own_sum[0] = __dp2a_lo(weights, one, own_sum[0]);
        own_sum[1] = __dp2a_hi(weights, one, own_sum[1]);
        own_sum[2] = __dp2a_lo(weights, two, own_sum[2]);
        own_sum[3] = __dp2a_hi(weights, two, own_sum[3]);
      }
    } else {
      const uint32_t taps = rows.taps_and_closed;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        Acc element[kWords][kParts];
        each_word([&](int i) { unpack(word(offset, j, i), element[i]); });
        load(tile, ahead, j);
#pragma unroll
        for (int slot = 0; slot < kOpen; ++slot) {
          if ((taps >> (2 * slot + j) & 1) == 0) continue;
          const Acc weight = rows.weight[slot].of[j];
#pragma unroll
          for (int i = 0; i < kWords; ++i) {
#pragma unroll
            for (int k = 0; k < kParts; ++k) {
              sum[slot][i][k] = sum[slot][i][k] + weight * element[i][k];
            }
          }
        }
      }
    }
  }

  // The first of the open rows has all its taps: writes its sums, and the others move up.
  __device__ void close(int shift, typename F::Column* held) {
    struct alignas(sizeof(typename F::Column) * kParts) Columns {
      typename F::Column of[kParts];
    };
    each_word([&](int i) {
      Columns columns;
#pragma unroll
      for (int j = 0; j < kParts; ++j) {
        if constexpr (F::kIntegers) {
          columns.of[j] = static_cast<int16_t>(round_column(sum[0][i][j], shift));
        } else {
          columns.of[j] = sum[0][i][j];
        }
      }
      *reinterpret_cast<Columns*>(held + i * kFilterThreads * kParts) = columns;
    });
#pragma unroll
    for (int slot = 0; slot < kOpen; ++slot) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
#pragma unroll
        for (int j = 0; j < kParts; ++j) {
          sum[slot][i][j] = slot + 1 < kOpen ? sum[slot + 1][i][j] : static_cast<Sum>(0);
        }
      }
    }
  }

 private:
  __device__ static void unpack(Word word, Acc element[kParts]) {
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      if constexpr (F::kBytes) {
        element[j] = offset_byte(word, j) - kByteOffset;
      } else if constexpr (kParts > 1) {
        const T one = {static_cast<uint16_t>(word >> (16 * j))};
        element[j] = load_element(&one);
      } else {
        element[j] = bit_cast<T>(word);
      }
    }
  }
};

// The output row after the last one that can be summed in one walk from row `from` on, of `most`
// rows: of each, the first tap and the last one come no sooner than those of the row before, there
// are no rows between that none of them has, and when a row opens there is room for it. All lanes
// of a warp call it, each for a row.
template <class F>
__device__ inline int end_of_walk(const FilterTile<F>& tile, int from, int most) {
  static_assert(kMostFilterRows < kWarp, "a lane for each row, and one behind them");
  const int64_t begin = tile.row[from].first;
  const int to = static_cast<int>(threadIdx.x) % kWarp;
  bool ends = to >= tile.rows || to - from >= most;
  if (to > from && !ends) {
    const auto &row = tile.row[to], &last = tile.row[to - 1];
    const bool follows = last.first < last.end && row.first < row.end && row.first >= last.first &&
                         row.end >= last.end && row.first <= last.end;
    const bool has_room =
        to - from < F::kOpen || tile.row[to - F::kOpen].last_pair(begin) < row.first_pair(begin);
    ends = !follows || !has_room;
  }
  return __ffs(static_cast<int>(__ballot_sync(0xffffffffu, ends))) - 1;
}

// Pair `index` of those that begin at row `begin`, for output rows from `from` on and before `to`;
// or the one after the last, which is read in vain.
template <class F>
__device__ inline void prepare_pair(const AugmentParams& p, int from, int to, int64_t index,
                                    FilterTile<F>* tile, RowPair<F>* pair) {
  const int64_t begin = tile->row[from].first;
  int open = from, closed = 0;
  while (open + 1 < to && tile->row[open].last_pair(begin) < index) ++open;
  while (open + closed < to && tile->row[open + closed].last_pair(begin) == index) ++closed;
  uint32_t taps_and_closed = static_cast<uint32_t>(closed) << RowPair<F>::kTapBits;
  const SegmentAxis<typename F::Acc>& axis = tile->row[open].axis;
  const int64_t last = tile->row[to - 1].end - 1;
  for (int j = 0; j < 2; ++j) {
    const int64_t k = begin + 2 * index + j;
    const int64_t read = k <= last ? k : begin;  // there may be no such row
    pair->offset.of[j] =
        filter_index(axis, tile->sample.y, p.padding, static_cast<int32_t>(read - axis.origin)) *
        tile->sample.image.row_stride * int64_t{sizeof(typename F::T)};
    for (int slot = 0; slot < F::kOpen; ++slot) {
      const int row = open + slot;
      pair->open.weight[slot].of[j] = 0;
      if (row >= to || k < tile->row[row].first || k >= tile->row[row].end) continue;
      taps_and_closed |= 1u << (2 * slot + j);
      pair->open.weight[slot].of[j] = row_weight(*tile, row, k);
    }
  }
  pair->open.taps_and_closed = taps_and_closed;
}

// Columns of a tile from `begin` on and before `end`, and a part of their tap columns.
struct FilterPiece {
  int begin, end;
  bool continues;  // a sum of taps before these
  bool ends;       // else others are to come
};

// Walks down the columns of a piece, for rows of the tile from `from` on and before `to`: leaves
// their sums in tile->held, `pitch` elements from row to row. All threads of the block call it.
template <class F, int kWords, bool as_they_lie>
__device__ void walk_rows(const AugmentParams& p, const FilterWords<F>& words, int from, int to,
                          int pitch, FilterTile<F>* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  FilterWalk<F, kWords, as_they_lie> walk(words);
  int row = from;  // the first one that is open
  typename F::Column* held = tile->held + thread * F::kParts;
  const int64_t pairs = tile->row[to - 1].last_pair(tile->row[from].first) + 1;
  for (int64_t done = 0; done < pairs; done += kPairs) {
    __syncthreads();  // all threads have added the last pairs, or finished the last walk's pixels
    if (thread <= kPairs && done + thread <= pairs) {
      prepare_pair(p, from, to, done + thread, tile, &tile->pair[thread]);
    }
    __syncthreads();  // the pairs are there
    if (words.used == 0) continue;
    const int count = static_cast<int>(pairs - done < kPairs ? pairs - done : kPairs);
    for (int j = 0; j < 2; ++j) walk.load(*tile, tile->pair[0].offset, j);
#pragma unroll 1
    for (const RowPair<F>* pair = tile->pair; pair < tile->pair + count; ++pair) {
      const typename RowPair<F>::Rows& rows = pair->open;
      walk.add(*tile, pair, rows);
#pragma unroll 1
      for (int closed = pair->closed(rows); closed > 0; --closed, ++row, held += pitch) {
        walk.close(tile->row[row].shift, held);
      }
    }
  }
}

// The tap columns of a pixel that a walk has summed.
struct WalkedTaps {
  int first;  // of the pixel's own
  int count;
  int place;  // of the first one in a line of sums

  template <class F>
  __device__ WalkedTaps(const FilterTile<F>& tile, const FilterRuns& runs, int column) {
    const auto& taps = tile.column[column].taps;
    const int32_t from = taps.first > runs.first ? taps.first : runs.first;
    const int64_t left = int64_t{taps.first} + taps.count,
                  walked = int64_t{runs.first} + runs.columns;
    first = from - taps.first;
    count = static_cast<int32_t>((left < walked ? left : walked) - from);
    place = runs.skipped + (from - runs.first) * runs.step;
  }
};

// This thread's pixels, of one column, in the rows of a walk: from `from` on and before `to`. All
// threads of the block call it.
template <class F, int kFixed>
__device__ void finish_rows(const AugmentParams& p, const FilterRuns& runs,
                            const FilterPiece& piece, const ChannelGroup<kFixed>& channels,
                            int from, int to, int pitch, FilterTile<F>* tile) {
  using Acc = typename F::Acc;
  using Sum = typename F::Sum;
  const int thread = static_cast<int>(threadIdx.x), column = thread % kTileWidth;
  const int lanes = column - column % kWarp;  // the first one's column
  if (lanes >= piece.end || lanes + kWarp <= piece.begin) return;
  // Lanes of other pieces' columns, or beyond the output, have no pixel.
  const bool exists = column >= piece.begin && column < piece.end;
  const WalkedTaps taps(*tile, runs, exists ? column : piece.begin);
  const int count = channels.count(), step = runs.step;
  const int apart = step > 1 ? 1 : runs.words * F::kParts;
  const int kept = F::kWeights - taps.first < taps.count ? F::kWeights - taps.first : taps.count;
  const auto* const weights = tile->column_weight[kept > 0 ? taps.first : 0] + column;
  const Acc cover = tile->column[column].cover;
  const bool blends = blends_edge(p, tile->sample);
  const bool words = tile->words && lanes >= piece.begin && lanes + kWarp <= piece.end;
  const int64_t index = tile->index;
  const int x = tile->left + column;
  for (int row = from + thread / kTileWidth; row < to; row += kFilterThreads / kTileWidth) {
    Sum sum[kPixelGroup] = {};
    if (exists) {
      const typename F::Column* held = tile->held + (row - from) * pitch + taps.place;
      Acc* const carried = tile->carried[row];
      const auto add = [&](Sum weight) {
        for (int c = 0; c < kPixelGroup; ++c) {
          if (c >= count) break;
          sum[c] = sum[c] + weight * static_cast<Sum>(held[c * apart]);
        }
        held += step;
      };
      if constexpr (!F::kIntegers) {
        for (int c = 0; c < kPixelGroup; ++c) {
          if (piece.continues && c < count) sum[c] = carried[c];
        }
      }
      const typename F::Weight* weight = weights;
      int i = 0;
#pragma unroll 2
      for (; i < kept; ++i, weight += kTileWidth) add(*weight);
      if constexpr (!F::kIntegers) {
        const auto& all = tile->column[column].taps;
#pragma unroll 1
        for (; i < taps.count; ++i) {
          add(filter_tap<F::kMode>(all, all.first + taps.first + i) * all.norm);
        }
        for (int c = 0; c < kPixelGroup; ++c) {
          if (!piece.ends && c < count) carried[c] = sum[c];
        }
      }
    }
    if (!piece.ends) continue;
    const int y = tile->top + tile->output_row(row);
    const bool erased = exists && tile->erased && is_erased(p, index, x, y);
    Acc value[kPixelGroup] = {};
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      if constexpr (F::kIntegers) {
        value[c] = static_cast<float>(sum[c]) * tile->column[column].unit + 128.0f;
      } else {
        value[c] = sum[c];
      }
    }
    if (blends) {
      const Acc out = static_cast<Acc>(1) - cover * tile->row[row].cover;
      if (out != static_cast<Acc>(0)) {  // at the window's edge
        for (int c = 0; c < kPixelGroup; ++c) {
          if (c >= count) break;
          value[c] = blend_fill(value[c], tile->values.fill[channels.value(p, c)], out);
        }
      }
    }
    PixelOutput output = pixel_output(output_layout(p), words, index, y, x);
    output.exists = exists;
    color_and_store(p, *tile, output, channels, erased, value, tile->staged[thread / kWarp]);
  }
}

// All rows of the tile, in the columns of a piece. All threads of the block call it.
template <class F>
__device__ void filter_piece(const AugmentParams& p, const FilterRuns& runs,
                             const FilterPiece& piece, const ChannelGroup<0>& channels,
                             FilterTile<F>* tile) {
  constexpr int kPhoto = 3;  // channels
  constexpr int kFew = F::kWords < 2 ? 1 : 2;
  const FilterWords<F> words(p, channels.first, runs, tile);
  // A line has whole warps' words.
  const int pitch = static_cast<int>(parts_of(runs.count * runs.words, kWarp)) * kWarp * F::kParts;
  const int most = pitch > 0 ? F::kHeld / pitch : kMostFilterRows;
  __syncthreads();  // all warps have said how they read
  bool in_parts = false;
  for (const bool warp : tile->reads_parts) in_parts = in_parts || warp;
  for (int from = 0, to = 0; from < tile->rows; from = to) {
    to = end_of_walk(*tile, from, most);
    if (F::kParts > 1 && in_parts) {
      walk_rows<F, 1, F::kParts == 1>(p, words, from, to, pitch, tile);
    } else if (runs.count * runs.words > kFew * kFilterThreads) {
      walk_rows<F, F::kWords, true>(p, words, from, to, pitch, tile);
    } else {
      walk_rows<F, kFew, true>(p, words, from, to, pitch, tile);
    }
    __syncthreads();  // the sums are there
    if (p.channels == kPhoto) {
      finish_rows(p, runs, piece, ChannelGroup<kPhoto>{0, kPhoto}, from, to, pitch, tile);
    } else {
      finish_rows(p, runs, piece, channels, from, to, pitch, tile);
    }
  }
}

// How a group's elements lie for a walk, as yet without columns.
template <class F>
__device__ inline FilterRuns runs_of(const AugmentImage& image, int count) {
  FilterRuns runs = {};
  const bool narrow = image.width * count <= INT32_MAX;  // places in a run fit in 32 bits
  const bool interleaved = count > 1 && image.channel_stride == 1 && narrow &&
                           (F::kParts == 1 || image.column_stride == count);
  runs.count = interleaved ? 1 : count;
  runs.step = interleaved ? count : 1;
  constexpr int64_t kParts = F::kParts;
  runs.adjoin = image.column_stride == runs.step;
  runs.aligned = runs.adjoin && image.row_stride % kParts == 0 &&
                 (runs.count == 1 || image.channel_stride % kParts == 0);
  return runs;
}

// The tap columns of the tile's columns [begin, end). Returns how many; the first is runs->first.
template <class F>
__device__ inline int64_t tap_columns(const FilterTile<F>& tile, int begin, int end,
                                      FilterRuns* runs) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int32_t least = INT32_MAX, most = INT32_MIN;
#pragma unroll 1
  for (int i = begin + lane; i < end; i += kWarp) {
    const auto& taps = tile.column[i].taps;
    if (taps.count == 0) continue;
    const int32_t last = taps.first + taps.count - 1;
    least = taps.first < least ? taps.first : least;
    most = last > most ? last : most;
  }
  least = least_of_warp(least);
  most = most_of_warp(most);
  runs->first = least <= most ? least : 0;
  return least <= most ? int64_t{most} - least + 1 : 0;
}

// The columns of the tile in pieces that fit into the block's words.
template <class F>
__device__ void filter_group(const AugmentParams& p, const ChannelGroup<0>& channels,
                             FilterTile<F>* tile) {
  constexpr int kParts = F::kParts;
  const AugmentImage& image = tile->sample.image;
  FilterRuns runs = runs_of<F>(image, channels.count());
  const int most = (F::kBlockWords / runs.count * kParts - (kParts - 1)) / runs.step;
  FilterPiece piece = {};
  for (; piece.begin < tile->columns; piece.begin = piece.end) {
    int64_t taps = 0;
    for (int size = kTileWidth; size > 0; size /= 2) {
      piece.end = piece.begin + size < tile->columns ? piece.begin + size : tile->columns;
      taps = tap_columns(*tile, piece.begin, piece.end, &runs);
      if (taps <= most) break;
    }
    piece.continues = false;
    do {
      piece.ends = taps <= most;
      runs.columns = static_cast<int32_t>(piece.ends ? taps : most);
      if (runs.aligned) {
        const auto* const first =
            static_cast<const typename F::T*>(image.data) + channels.first * image.channel_stride;
        const auto place = static_cast<uint64_t>((tile->x.origin + runs.first) * runs.step);
        const uint64_t past = reinterpret_cast<uintptr_t>(first) / sizeof(typename F::T) + place;
        runs.skipped = static_cast<int>(past % kParts);
      }
      runs.words = static_cast<int>(parts_of(runs.skipped + runs.columns * runs.step, kParts));
      filter_piece(p, runs, piece, channels, tile);
      runs.first += runs.columns;
      taps -= runs.columns;
      piece.continues = true;
    } while (!piece.ends);
  }
}

template <class F>
__global__ void __launch_bounds__(kFilterThreads, 2)
    augment_filter(const __grid_constant__ AugmentParams p, const TileGrid grid,
                   const int64_t first) {
  __shared__ FilterTile<F> tile;
  constexpr SampleKind kMine = F::kIntegers ? SampleKind::kIntegers : SampleKind::kUpright;
  const TileAt at = tile_at(grid, first + blockIdx.x);
  if (kind_of(p.samples[at.sample]) != kMine) return;
  prepare_filter(p, grid, at, &tile);
  for (int64_t group = 0; group < p.channels; group += kPixelGroup) {
    filter_group(p, ChannelGroup<0>{group, group_size(p, group)}, &tile);
  }
}

template <class F>
void filter_as(const AugmentParams& p, void* stream) {
  const TileGrid grid = tall_tiles(p.batch, p.output_height, p.output_width, kLeastFilterRows,
                                   kMostFilterRows, kTileWidth);
  each_grid(grid.count, [&](int64_t first, dim3 blocks) {
    launch(augment_filter<F>, blocks, dim3(kFilterThreads), 0, stream, p, grid, first);
  });
}

}  // namespace
}  // namespace visops
