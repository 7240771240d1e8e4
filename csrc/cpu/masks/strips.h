// Runs of masks, found and joined in bits.
//
// NOTE [ Strips ]
// Two rows, one OR the other, are a strip. Where diagonals connect, adjacent columns of a strip
// that have a pixel each are connected, whichever row it is in. So a run of a strip is connected,
// and there are far fewer of them than of rows (of noise, three eighths). Without diagonals, a
// strip is one row.
//
// Where two strips meet, each pair of runs that touch becomes one bit. The columns that both strips
// cover (`both`) are runs themselves, each the overlap of one pair. Bits in them tell where pixels
// touch; added to the run, any of them carries to the column behind its end. Pairs without an
// overlap touch at one corner. A run's index is the number of runs that start up to a column. So
// there is nothing to search, no branch that asks whether two runs touch, and no list of edges.
//
// Runs have indices from left to right, strip by strip, which isn't the raster order of their first
// pixels: in a strip, components that begin in its upper row are numbered before those that begin
// in the lower one.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/dispatch/workspace.h"
#include "core/platform.h"
#include "cpu/masks/pack_rows.h"
#include "cpu/masks/partition.h"
#include "cpu/simd/bits.h"

namespace visops {
namespace {

// Union-find over the runs of an image.
//
// NOTE [ Components on the CPU ]
// Strategy: what is adjacent becomes a run: in label maps equal pixels of a row, in masks NOTE
// [ Strips ]. Runs that touch one above join its tree. A run has an index, and links lead to
// smaller indices, so one pass in that order turns links into numbers (NOTE [ Components ]).
//
// Split: tasks have masks. If there are fewer masks than threads, bands of a mask are scanned at
// once, then joined where they meet.
//
// Assumes what the front established: masks are contiguous, with fewer than 2^31 pixels each.

// Indices of the runs of a row, or of a strip of rows.
struct RunRange {
  int32_t begin, end;
};

// For each run an earlier one of the same component, or itself.
struct Links {
  int32_t* links;  // [runs]

  int32_t root(int32_t run) const {
    while (links[run] != run) {
      links[run] = links[links[run]];
      run = links[run];
    }
    return run;
  }

  // Joins a run with one above. A run that has met none yet just takes its link.
  VISOPS_ALWAYS_INLINE void join(int32_t run, int32_t above) const {
    const int32_t own = links[run], theirs = links[above];
    const bool is_first = own == run;
    links[run] = is_first ? theirs : own;
    if (is_first | (own == theirs)) return;
    const int32_t a = root(own), b = root(theirs);
    links[a < b ? b : a] = a < b ? a : b;
  }
};

// Parts of an image, rows or strips, that are scanned at once, in `bands`.
struct Bands {
  int64_t parts, bands;
  int64_t begin(int64_t band) const { return parts * band / bands; }
};

// Out of line, since it is called for one band and, by threads, for several.
template <class Image>
VISOPS_NOINLINE void scan_bands(const Image& image, const Bands& bands, int64_t first,
                                int64_t last) {
  for (int64_t band = first; band < last; ++band) {
    image.scan(bands.begin(band), bands.begin(band + 1));
  }
}

// Scans and numbers an image in bands, on all threads; returns the number of components.
template <class Image>
int32_t number_in_bands(const Image& image, const Bands& bands, Workspace& workspace) {
  parallel_for(workspace, bands.bands, 1,
               [&](int64_t first, int64_t last) { scan_bands(image, bands, first, last); });
  for (int64_t band = 1; band < bands.bands; ++band) image.join_above(bands.begin(band));
  return image.number();
}

// Bits of a row moved by one column, word after word.
struct NextColumn {
  uint64_t last = 0;  // the column before the next word
  VISOPS_ALWAYS_INLINE uint64_t operator()(uint64_t word) {
    const uint64_t moved = word << 1 | last;
    last = word >> 63;
    return moved;
  }
};

// Sums of rows of bits, word after word.
struct RowSum {
  uint64_t carry = 0;
  VISOPS_ALWAYS_INLINE uint64_t operator()(uint64_t a, uint64_t b) {
    uint64_t sum = a + carry;
    carry = sum < carry ? 1 : 0;
    sum += b;
    carry |= sum < b ? 1 : 0;
    return sum;
  }
};

// The bits of a run in words from column `begin` to `end`.
inline int64_t count_range(const uint64_t* row, int64_t begin, int64_t end) {
  const int64_t first = begin / kWordBits, last = (end - 1) / kWordBits;
  const uint64_t from = ~uint64_t{0} << (begin - first * kWordBits);
  const uint64_t to = ~uint64_t{0} >> (kWordBits - (end - last * kWordBits));
  if (first == last) return count_bits(row[first] & from & to);
  int64_t count = count_bits(row[first] & from) + count_bits(row[last] & to);
  for (int64_t w = first + 1; w < last; ++w) count += count_bits(row[w]);
  return count;
}

// One mask, whose pixels that are not 0 are inside, or those that are.
class Strips {
 public:
  using Pixel = uint8_t;

  struct Shape {
    int64_t height, width;
    bool diagonal, inverted;

    int64_t rows() const { return diagonal ? 2 : 1; }
    int64_t strips() const { return (height + rows() - 1) / rows(); }
    int64_t parts() const { return strips(); }
    int64_t words() const { return width / kWordBits + 1; }  // there is a column behind the last
    int64_t most() const { return (width + 1) / 2; }         // runs of a strip
    int64_t bytes() const {
      const int64_t runs = strips() * most() + most();
      return (height * words() + strips() + (runs + 1) / 2 + (most() + 7) / 8) * 8;
    }
  };

  // `memory` has shape.bytes(), aligned to 8.
  Strips(const Shape& shape, const uint8_t* pixels, char* memory) : shape_(shape), pixels_(pixels) {
    bits_ = reinterpret_cast<uint64_t*>(memory);
    runs_ = reinterpret_cast<RunRange*>(bits_ + shape.height * shape.words());
    links_.links = reinterpret_cast<int32_t*>(runs_ + shape.strips());
    fresh_ = links_.links + shape.strips() * shape.most();
    is_lower_ = reinterpret_cast<uint8_t*>(fresh_ + shape.most());
    memset(is_lower_, 0, static_cast<size_t>(shape.most()));
  }

  const RunRange& runs(int64_t strip) const { return runs_[strip]; }
  int64_t first_row(int64_t strip) const { return strip * shape_.rows(); }
  int64_t last_row(int64_t strip) const {  // the first one again, where a strip has only one
    const int64_t row = first_row(strip) + shape_.rows() - 1;
    return row < shape_.height ? row : first_row(strip);
  }
  const uint64_t* row(int64_t y) const { return bits_ + y * shape_.words(); }

  // After number(): the component of a run.
  int32_t number_of(int32_t run) const { return -links_.links[run]; }

  // Finds the runs of strips [begin, end) and joins them. Indices begin where the strips' room
  // does.
  void scan(int64_t begin, int64_t end) const {
    auto run = static_cast<int32_t>(begin * shape_.most());
    for (int64_t strip = begin; strip < end; ++strip) {
      pack(first_row(strip));
      if (last_row(strip) != first_row(strip)) pack(last_row(strip));
      const int32_t first = run;
      NextColumn next;
      for_words(strip, [&](int64_t, uint64_t upper, uint64_t lower) {
        const uint64_t any = upper | lower;
        run += static_cast<int32_t>(count_bits(any & ~next(any)));
      });
      runs_[strip] = {first, run};
      for (int32_t i = first; i < run; ++i) links_.links[i] = i;
      if (strip > begin) join_above(strip);
    }
  }

  // Joins the runs of a strip with those of the strip above.
  void join_above(int64_t strip) const {
    shape_.diagonal ? join_strips<true>(strip) : join_strips<false>(strip);
  }

  // Turns links into numbers; returns how many components there are.
  int32_t number() const {
    int32_t found = 0;
    for (int64_t strip = 0; strip < shape_.strips(); ++strip) found = number_strip(strip, found);
    return found;
  }

  // f(first, past, number) for the runs of a strip, in columns.
  template <class F>
  VISOPS_ALWAYS_INLINE void for_runs(int64_t strip, const F& f) const {
    int32_t run = runs_[strip].begin;
    int64_t first = -1;
    NextColumn next;
    for_words(strip, [&](int64_t w, uint64_t upper, uint64_t lower) {
      const uint64_t any = upper | lower;
      uint64_t edges = any ^ next(any);
      if (edges == 0) return;
      if (first >= 0) {
        f(first, w * kWordBits + lowest_bit(edges), number_of(run++));
        first = -1;
        edges &= edges - 1;
      }
      while (edges != 0) {
        const int64_t begin = w * kWordBits + lowest_bit(edges);
        edges &= edges - 1;
        if (edges == 0) {
          first = begin;
          return;
        }
        f(begin, w * kWordBits + lowest_bit(edges), number_of(run++));
        edges &= edges - 1;
      }
    });
  }

 private:
  void pack(int64_t y) const {
    const int64_t words = shape_.words(), width = shape_.width;
    uint64_t* row = bits_ + y * words;
    row[words - 1] = 0;
    pack_rows(pixels_ + y * width, 1, width, (shape_.height - y) * width, row);
    if (!shape_.inverted) return;
    for (int64_t w = 0; w < words; ++w) row[w] = ~row[w];
    row[words - 1] &= (uint64_t{1} << (width - (words - 1) * kWordBits)) - 1;
  }

  // f(w, upper, lower) for all words of a strip's rows.
  template <class F>
  VISOPS_ALWAYS_INLINE void for_words(int64_t strip, const F& f) const {
    const uint64_t *upper = row(first_row(strip)), *lower = row(last_row(strip));
    for (int64_t w = 0; w < shape_.words(); ++w) f(w, upper[w], lower[w]);
  }

  template <bool diagonal>
  void join_strips(int64_t strip) const {
    const uint64_t *a_upper = row(first_row(strip - 1)), *a_lower = row(last_row(strip - 1));
    const uint64_t *b_upper = row(first_row(strip)), *b_lower = row(last_row(strip));
    int64_t a = runs_[strip - 1].begin - 1, b = runs_[strip].begin - 1;  // the last to have started
    NextColumn next_a, next_b, next_lower, next_upper;
    RowSum sum;
    for (int64_t w = 0; w < shape_.words(); ++w) {
      const uint64_t lower = a_lower[w], upper = b_upper[w];  // the two rows that meet
      const uint64_t above = a_upper[w] | lower, here = upper | b_lower[w], both = above & here;
      uint64_t corners = 0;  // the right one of two pixels that touch at a corner
      if (diagonal) corners = (next_lower(lower) & upper) | (next_upper(upper) & lower);
      const uint64_t touching = ((lower & upper) | corners) & both;
      uint64_t pairs = (sum(both, touching) | corners) & ~both;
      const uint64_t a_starts = above & ~next_a(above), b_starts = here & ~next_b(here);
      for (; pairs != 0; pairs &= pairs - 1) {
        const uint64_t up_to = pairs ^ (pairs - 1);
        links_.join(static_cast<int32_t>(b + count_bits(b_starts & up_to)),
                    static_cast<int32_t>(a + count_bits(a_starts & up_to)));
      }
      a += count_bits(a_starts);
      b += count_bits(b_starts);
    }
  }

  // Numbers are stored as negative links. Runs whose component begins in the strip come last, those
  // with a pixel in the upper row before the others.
  int32_t number_strip(int64_t strip, int32_t found) const {
    const RunRange range = runs_[strip];
    int32_t* links = links_.links;
    int64_t count = 0;
    for (int32_t run = range.begin; run < range.end; ++run) {
      const int32_t link = links[links[run]];
      links[run] = link;
      fresh_[count] = run;
      count += link >= 0 ? 1 : 0;
    }
    if (count == 0) return found;
    const auto number = [&](int32_t run) {
      int32_t link = links[run];
      if (link >= 0 && links[link] >= 0) links[link] = -++found;
      if (link >= 0) links[run] = links[link];
    };
    mark_lower(strip);
    for (int64_t i = 0; i < count; ++i) {
      if (is_lower_[fresh_[i] - range.begin] == 0) number(fresh_[i]);
    }
    for (int64_t i = 0; i < count; ++i) number(fresh_[i]);
    memset(is_lower_, 0, static_cast<size_t>(range.end - range.begin));
    return found;
  }

  // Marks runs without a pixel in the upper row, which are those where nothing carries to the
  // column behind the end.
  void mark_lower(int64_t strip) const {
    NextColumn next;
    RowSum sum;
    uint8_t* marks = is_lower_;
    for_words(strip, [&](int64_t, uint64_t upper, uint64_t lower) {
      const uint64_t any = upper | lower, ends = next(any) & ~any;
      uint64_t only_lower = ends & ~sum(any, upper);
      for (; only_lower != 0; only_lower &= only_lower - 1) {
        marks[count_bits(ends & (only_lower ^ (only_lower - 1))) - 1] = 1;
      }
      marks += count_bits(ends);
    });
  }

  Shape shape_;
  const uint8_t* pixels_;  // [height, width]
  uint64_t* bits_;         // [height, words]
  RunRange* runs_;         // [strips]
  Links links_;            // a strip's runs are adjacent; it has room for as many as it may contain
  int32_t* fresh_;         // [most] runs of a strip whose components begin there
  uint8_t* is_lower_;      // [most] of a strip
};

}  // namespace
}  // namespace visops
