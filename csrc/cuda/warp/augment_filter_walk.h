// antialias where maps are upright: the kernel.
//
// NOTE [ Upright filter on CUDA ]
// A filter of n x n taps is separable, and NOTE [ One augmented pixel ] sums tap rows first: for a
// tap column j, v_j = sum_i wy_i p_ij. Where the map is upright, all pixels of an output row have
// the same wy and share their tap columns. So a block takes a tile of the output, and its threads
// walk down the columns of the source that the tile reads: each adds a few words of every row, of
// four uint8 elements each, to the sums of the output rows that have this row as a tap. Few are
// open at a time: a tent reaches two, and kOpen leaves one more, since rows come in pairs. So
// an element is read once by a tile, and from one to two rows are on their way while two are added.
//
// A row that has all its taps is closed: its sums go to shared memory. When there are kHeldRows of
// them, each thread adds for one pixel those that are its taps, from left to right. Sums have the
// terms and the order of augment_forward(), and so its bits. Taps that only multiply uint8 elements
// by 0 are left out.
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
#include "cuda/warp_extremes.h"

namespace visops {
namespace {

// A thread's words of a source row, and its sums of the open rows. Word i of the thread is number
// `thread + i kFilterThreads` of all runs'.
template <class F>
struct FilterWalk {
  using T = typename F::T;
  using Acc = typename F::Acc;
  using Sum = typename F::Sum;
  using Word = typename F::Word;
  static constexpr int kWords = F::kWords, kParts = F::kParts, kOpen = F::kOpen;

  // In the image's first row; of words that are read element by element, where the plane begins.
  const char* at[kWords];
  int64_t apart;      // from element to element of these, in bytes
  uint32_t in_parts;  // a bit for each of these
  bool plain;         // all words of the warp are read as they lie
  int used;           // words of the warp's threads; others are sums of anything
  // The next pair of rows; and the words behind, where rows don't begin at words.
  Word next[2][kWords], behind[2][kWords];
  Sum sum[kOpen][kWords][kParts] = {};  // 0 again when the last row is closed

  // `first` is the group's first channel.
  __device__ void place(const AugmentParams& p, int64_t first, const FilterRuns& runs,
                        FilterTile<F>* tile) {
    const AugmentImage& image = tile->sample.image;
    const auto* const data = static_cast<const T*>(image.data) + first * image.channel_stride;
    const int total = runs.count * runs.words, thread = static_cast<int>(threadIdx.x);
    const int left = total - (thread - thread % kWarp);
    used = left > 0 ? (left + kFilterThreads - 1) / kFilterThreads : 1;
    in_parts = 0;
    apart = (runs.step > 1 ? 1 : image.column_stride) * int64_t{sizeof(T)};
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int own = thread + i * kFilterThreads;
      // The last threads have fewer; what they sum instead, one that is likely whole, is lost.
      const int word = own < total ? own : total / 2;
      const int run = runs.words > 0 ? word / runs.words : 0;
      const int begin = (word - run * runs.words) * kParts - runs.skipped;
      const T* const plane = data + run * image.channel_stride;
      if constexpr (kParts == 1) {
        const int channel = begin % runs.step;
        at[i] = reinterpret_cast<const char*>(plane +
                                              runs.column(p, *tile, begin) * image.column_stride +
                                              channel * image.channel_stride);
      } else {
        const bool whole = runs.has_whole(*tile, begin, kParts);
        const int64_t place = (tile->x.origin + runs.first) * runs.step + begin;
        at[i] = reinterpret_cast<const char*>(whole ? plane + place : plane);
        if (whole) continue;
        in_parts |= 1u << i;
        list_elements(p, runs, begin, own, tile);
      }
    }
    plain = kParts == 1 || __all_sync(0xffffffffu, runs.aligned && in_parts == 0) != 0;
  }

  // Row j of a pair, `count` words of it. What is loaded is used as late as possible, but for
  // elements that are read one by one.
  template <int count, bool as_they_lie>
  __device__ void load(const FilterTile<F>& tile, const RowPair<F>& pair, int j) {
    const int64_t offset = pair.offset[j];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const char* const from = at[i] + offset;
      if constexpr (as_they_lie) {
        next[j][i] = load_word(from);
      } else if ((in_parts >> i & 1) != 0) {
        next[j][i] = load_elements(tile, i, from);
      } else {
        const auto past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % sizeof(Word));
        next[j][i] = load_word(from - past);
        if (past != 0) behind[j][i] = load_word(from - past + sizeof(Word));
      }
    }
  }

  // What load() has read.
  template <bool as_they_lie>
  __device__ Word word(const RowPair<F>& pair, int j, int i) const {
    if constexpr (as_they_lie) return next[j][i];
    const auto low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at[i]) + pair.offset[j]);
    const uint32_t past = (in_parts >> i & 1) != 0 ? 0 : low % uint32_t{sizeof(Word)};
    return __funnelshift_r(next[j][i], behind[j][i], 8 * past);
  }

  // Adds what has been loaded of `pair`. Rows of `ahead` are on their way as soon as there is room.
  template <int count, bool as_they_lie>
  __device__ void add(const FilterTile<F>& tile, const RowPair<F>& pair, const RowPair<F>& ahead) {
    const uint32_t taps = pair.taps;
    if constexpr (F::kIntegers) {
      uint32_t left[count], right[count];
#pragma unroll
      for (int i = 0; i < count; ++i) {
        // p - 128 is a signed byte. Two rows' bytes in turn, for two products at once.
        const uint32_t above = word<as_they_lie>(pair, 0, i), below = word<as_they_lie>(pair, 1, i);
        left[i] = __byte_perm(above, below, 0x5140) ^ 0x80808080u;
        right[i] = __byte_perm(above, below, 0x7362) ^ 0x80808080u;
      }
      load<count, as_they_lie>(tile, ahead, 0);
      load<count, as_they_lie>(tile, ahead, 1);
#pragma unroll
      for (int slot = 0; slot < kOpen; ++slot) {
        if ((taps >> (2 * slot) & 3) == 0) continue;
        const int weights = bit_cast<int>(pair.weight[slot]);
#pragma unroll
        for (int i = 0; i < count; ++i) {
          const int one = static_cast<int>(left[i]), two = static_cast<int>(right[i]);
          sum[slot][i][0] = __dp2a_lo(weights, one, sum[slot][i][0]);
          sum[slot][i][1] = __dp2a_hi(weights, one, sum[slot][i][1]);
          sum[slot][i][2] = __dp2a_lo(weights, two, sum[slot][i][2]);
          sum[slot][i][3] = __dp2a_hi(weights, two, sum[slot][i][3]);
        }
      }
    } else {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        Acc element[count][kParts];
#pragma unroll
        for (int i = 0; i < count; ++i) unpack(word<as_they_lie>(pair, j, i), element[i]);
        load<count, as_they_lie>(tile, ahead, j);
#pragma unroll
        for (int slot = 0; slot < kOpen; ++slot) {
          if ((taps >> (2 * slot + j) & 1) == 0) continue;
          const Acc weight = pair.weight[slot].of[j];
#pragma unroll
          for (int i = 0; i < count; ++i) {
#pragma unroll
            for (int k = 0; k < kParts; ++k) {
              sum[slot][i][k] = sum[slot][i][k] + weight * element[i][k];
            }
          }
        }
      }
    }
  }

  // call(count, as_they_lie), with std::integral_constants, for the warp's words.
  template <int count = kWords, class Call>
  __device__ void with_words(const Call& call) const {
    if constexpr (count == kWords && kParts > 1) {
      if (!plain) return call(std::integral_constant<int, count>(), std::false_type());
    }
    if constexpr (count > 1) {
      if (used < count) return with_words<count - 1>(call);
    }
    call(std::integral_constant<int, count>(), std::true_type());
  }

  // The first of the open rows has all its taps: writes its sums, and the others move up.
  __device__ void close(int shift, typename F::Column* held) {
    struct alignas(sizeof(typename F::Column) * kParts) Columns {
      typename F::Column of[kParts];
    };
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (i >= used && plain) break;
      Columns columns;
#pragma unroll
      for (int j = 0; j < kParts; ++j) {
        if constexpr (F::kIntegers) {
          columns.of[j] = static_cast<int16_t>(round_column(sum[0][i][j], shift));
        } else {
          columns.of[j] = sum[0][i][j];
        }
      }
      const int own = static_cast<int>(threadIdx.x) + i * kFilterThreads;
      *reinterpret_cast<Columns*>(held + own * kParts) = columns;
#pragma unroll
      for (int slot = 0; slot < kOpen; ++slot) {
#pragma unroll
        for (int j = 0; j < kParts; ++j) {
          sum[slot][i][j] = slot + 1 < kOpen ? sum[slot + 1][i][j] : static_cast<Sum>(0);
        }
      }
    }
  }

 private:
  // Lists the elements of the thread's word number `own`, which begins at a run's element `begin`.
  // Not inlined: that would take registers.
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

  __device__ static Word load_word(const char* from) {
    return load_readonly(reinterpret_cast<const Word*>(from));
  }

  // A word of the thread's, element by element.
  __device__ Word load_elements(const FilterTile<F>& tile, int i, const char* from) const {
    const int32_t* const element =
        tile.element + (static_cast<int>(threadIdx.x) + i * kFilterThreads) * kParts;
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

  __device__ static uint32_t bits_of(uint8_t element) { return element; }
  template <class Sixteen>
  __device__ static uint32_t bits_of(Sixteen element) {
    return element.bits;
  }

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

// The output row after the last one that can be summed in one walk from row `from` on: of each, the
// first tap and the last one come no sooner than those of the row before, there are no rows between
// that none of them has, and when a row opens there is room for it. All lanes of a warp call it,
// each for a row.
template <class F>
__device__ inline int end_of_walk(const FilterTile<F>& tile, int from) {
  static_assert(kFilterRows < kWarp, "a lane for each row, and one behind them");
  const int64_t begin = tile.row[from].first;
  const int to = static_cast<int>(threadIdx.x) % kWarp;
  bool ends = to >= tile.rows;
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

// Pair `index` of those that begin at row `begin`, for output rows from `from` on and before `to`.
template <class F>
__device__ inline void prepare_pair(const AugmentParams& p, int from, int to, int64_t index,
                                    FilterTile<F>* tile, RowPair<F>* pair) {
  const int64_t begin = tile->row[from].first;
  int open = from;
  while (tile->row[open].last_pair(begin) < index) ++open;
  pair->closed = 0;
  while (open + pair->closed < to && tile->row[open + pair->closed].last_pair(begin) == index) {
    ++pair->closed;
  }
  pair->taps = 0;
  const SegmentAxis<typename F::Acc>& axis = tile->row[open].axis;
  const int64_t last = tile->row[to - 1].end - 1;
  for (int j = 0; j < 2; ++j) {
    const int64_t k = begin + 2 * index + j;
    const int64_t read = j == 0 || k <= last ? k : k - 1;  // there may be no such row
    pair->offset[j] =
        filter_index(axis, tile->sample.y, p.padding, static_cast<int32_t>(read - axis.origin)) *
        tile->sample.image.row_stride * int64_t{sizeof(typename F::T)};
    for (int slot = 0; slot < F::kOpen; ++slot) {
      const int row = open + slot;
      pair->weight[slot].of[j] = 0;
      if (row >= to || k < tile->row[row].first || k >= tile->row[row].end) continue;
      pair->taps |= 1u << (2 * slot + j);
      pair->weight[slot].of[j] = row_weight(*tile, row, k);
    }
  }
}

// Columns of a tile from `begin` on and before `end`, and a part of their tap columns.
struct FilterPiece {
  int begin, end;
  bool continues;  // a sum of taps before these
  bool ends;       // else others are to come
};

// How much of a pixel is not the window's.
template <class F>
__device__ inline typename F::Acc uncovered(const AugmentParams& p, const FilterTile<F>& tile,
                                            int row, int column) {
  using Acc = typename F::Acc;
  if (!blends_edge(p, tile.sample)) return static_cast<Acc>(0);
  return static_cast<Acc>(1) - tile.column[column].cover * tile.row[row].cover;
}

// The sums of a pixel's tap columns, of a row that is held.
template <class F, int kFixed>
__device__ void sum_columns(const FilterTile<F>& tile, const FilterRuns& runs,
                            const ChannelGroup<kFixed>& channels, int column,
                            const typename F::Column* held, typename F::Sum value[kPixelGroup]) {
  using Sum = typename F::Sum;
  const auto& taps = tile.column[column].taps;
  const int32_t from = taps.first > runs.first ? taps.first : runs.first;
  const int64_t left = int64_t{taps.first} + taps.count,
                walked = int64_t{runs.first} + runs.columns;
  const auto count = static_cast<int32_t>((left < walked ? left : walked) - from);
  const int apart = runs.step > 1 ? 1 : runs.words * F::kParts;
  const int step = runs.step, tap = from - taps.first;
  held += runs.skipped + (from - runs.first) * step;
  const auto add = [&](Sum weight) {
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= channels.count()) break;
      value[c] = value[c] + weight * static_cast<Sum>(held[c * apart]);
    }
    held += step;
  };
  const int kept = F::kWeights - tap < count ? F::kWeights - tap : count;
  int i = 0;
#pragma unroll 2
  for (; i < kept; ++i) add(tile.column_weight[tap + i][column]);
  if constexpr (!F::kIntegers) {
#pragma unroll 1
    for (; i < count; ++i) add(filter_tap<F::kMode>(taps, from + i) * taps.norm);
  }
}

// A thread's pixel of a row that is held: `row` of the tile, as it is walked. All lanes of a warp
// call it, and those whose column isn't of the piece have no pixel.
template <class F>
__device__ void finish_pixel(const AugmentParams& p, const FilterRuns& runs,
                             const FilterPiece& piece, const ChannelGroup<0>& channels, int row,
                             int column, const typename F::Column* held, FilterTile<F>* tile) {
  using Acc = typename F::Acc;
  using Sum = typename F::Sum;
  const int count = channels.count();
  const bool exists = column >= piece.begin && column < piece.end;
  Sum sum[kPixelGroup] = {};
  if (exists) {
    Acc* const carried = tile->carried[row];
    if constexpr (!F::kIntegers) {
      for (int c = 0; c < kPixelGroup; ++c) {
        if (piece.continues && c < count) sum[c] = carried[c];
      }
    }
    constexpr int kPhoto = 3;  // channels
    if (count == kPhoto) {
      sum_columns(*tile, runs, ChannelGroup<kPhoto>{0, kPhoto}, column, held, sum);
    } else {
      sum_columns(*tile, runs, channels, column, held, sum);
    }
    if constexpr (!F::kIntegers) {
      for (int c = 0; c < kPixelGroup; ++c) {
        if (!piece.ends && c < count) carried[c] = sum[c];
      }
    }
  }
  if (!piece.ends) return;
  const int x = tile->left + column, y = tile->top + tile->output_row(row);
  const bool erased = exists && tile->erased && is_erased(p, tile->index, x, y);
  const Acc out = uncovered(p, *tile, row, column);
  Acc value[kPixelGroup] = {};
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    if constexpr (F::kIntegers) {
      value[c] = static_cast<float>(sum[c]) * tile->column[column].unit + 128.0f;
    } else {
      value[c] = sum[c];
    }
    value[c] = blend_fill(value[c], tile->values.fill[channels.value(p, c)], out);
  }
  if (p.color_steps > 0) {
    color_group(p, tile->plan, p.color_steps, static_cast<int>(p.channels), value);
  }
  finish_group(p, tile->values, channels, erased, value);
  PixelOutput output = pixel_output(output_layout(p), tile->words, tile->index, y, x);
  output.exists = exists;
  const int lanes = column - column % kWarp;  // the first one's column
  output.words = output.words && lanes >= piece.begin && lanes + kWarp <= piece.end;
  store_group(p, output, channels, value, tile->staged[threadIdx.x / kWarp]);
}

// Walks down the columns of a piece, for all rows of the tile. All threads of the block call it.
template <class F>
__device__ void walk_tile(const AugmentParams& p, const FilterRuns& runs, const FilterPiece& piece,
                          const ChannelGroup<0>& channels, FilterTile<F>* tile) {
  const int thread = static_cast<int>(threadIdx.x), column = thread % kTileWidth;
  FilterWalk<F> walk;
  walk.place(p, channels.first, runs, tile);
  int row = 0, held = 0;  // the first one that is open; rows above it that are held
  for (int from = 0; from < tile->rows;) {
    const int to = end_of_walk(*tile, from);
    const int64_t pairs = tile->row[to - 1].last_pair(tile->row[from].first) + 1;
    for (int64_t done = 0; done < pairs; done += kPairs) {
      __syncthreads();  // all threads have added the last pairs
      if (thread < kPairs && done + thread < pairs) {
        prepare_pair(p, from, to, done + thread, tile, &tile->pair[thread]);
      }
      __syncthreads();  // the pairs are there
      const int count = static_cast<int>(pairs - done < kPairs ? pairs - done : kPairs);
      walk.with_words([&](auto words, auto as_they_lie) {
        for (int j = 0; j < 2; ++j) {
          walk.template load<words.value, as_they_lie.value>(*tile, tile->pair[0], j);
        }
      });
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        const RowPair<F>& pair = tile->pair[i];
        walk.with_words([&](auto words, auto as_they_lie) {
          walk.template add<words.value, as_they_lie.value>(*tile, pair,
                                                            tile->pair[i + 1 < count ? i + 1 : i]);
        });
#pragma unroll 1
        for (int closed = pair.closed; closed > 0; --closed) {
          walk.close(tile->row[row].shift, tile->held[held]);
          ++row;
          ++held;
          if (held < kHeldRows && row < tile->rows) continue;
          __syncthreads();  // the rows are there
          const int mine = thread / kTileWidth, lanes = column - column % kWarp;
          if (mine < held && lanes < piece.end && lanes + kWarp > piece.begin) {
            finish_pixel(p, runs, piece, channels, row - held + mine, column, tile->held[mine],
                         tile);
          }
          held = 0;
          __syncthreads();  // all threads have read them
        }
      }
    }
    from = to;
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
      walk_tile(p, runs, piece, channels, tile);
      runs.first += runs.columns;
      taps -= runs.columns;
      piece.continues = true;
    } while (!piece.ends);
  }
}

// With more blocks of a multiprocessor, sums would be spilled while pixels are finished.
template <class F>
__global__ void __launch_bounds__(kFilterThreads, 3)
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
  const TileGrid grid = tile_grid(p.batch, p.output_height, p.output_width, kFilterRows);
  each_grid(grid.count, [&](int64_t first, dim3 blocks) {
    launch(augment_filter<F>, blocks, dim3(kFilterThreads), 0, stream, p, grid, first);
  });
}

}  // namespace
}  // namespace visops
