// Union-find over the runs of an image.
//
// NOTE [ Components on the CPU ]
// Strategy: rows become runs, 64 pixels to a word whose changes are the ends of runs. Runs that
// touch one of the row above join its tree. A run has an index, in raster order; links lead to
// smaller indices, so one pass in that order turns links into numbers (NOTE [ Components ]).
//
// Split: tasks have masks. If there are fewer masks than threads, bands of a mask are scanned at
// once, then joined where they meet.
//
// Assumes what the front established: masks are contiguous, with fewer than 2^31 pixels each.
#pragma once

#include <cstdint>

#include "cpu/masks/runs.h"
#include "cpu/masks/split.h"

namespace visops {
namespace {

// Indices of the runs of a row.
struct RunRange {
  int32_t begin, end;
};

// The runs of one image. A row's runs are adjacent, and bands of rows have room for as many runs
// as they may contain.
struct Forest {
  int32_t* edges;  // [runs, 2]
  int32_t* links;  // [runs] an earlier run of the same component, or itself
  RunRange* rows;  // [height]

  static int64_t bytes(int64_t height, int64_t most) {
    return height * (most * 3 * static_cast<int64_t>(sizeof(int32_t)) +
                     static_cast<int64_t>(sizeof(RunRange)));
  }
  static Forest at(char* memory, int64_t height, int64_t most) {
    Forest forest;
    forest.rows = reinterpret_cast<RunRange*>(memory);
    forest.edges = reinterpret_cast<int32_t*>(forest.rows + height);
    forest.links = forest.edges + 2 * height * most;
    return forest;
  }

  int32_t root(int32_t run) const {
    while (links[run] != run) {
      links[run] = links[links[run]];
      run = links[run];
    }
    return run;
  }

  // Joins a run with one of the row above. A run that has met none yet just takes its link.
  VISOPS_ALWAYS_INLINE void join(int32_t run, int32_t above) const {
    const int32_t own = links[run], theirs = links[above];
    const bool is_first = own == run;
    links[run] = is_first ? theirs : own;
    if (is_first | (own == theirs)) return;
    const int32_t a = root(own), b = root(theirs);
    links[a < b ? b : a] = a < b ? a : b;
  }
};

// Joins the runs of row y with those of the row above. `reach` is 1 if diagonals connect, else 0.
inline void join_rows(const Forest& forest, const MaskRows&, int64_t y, int32_t reach) {
  const RunRange above = forest.rows[y - 1], here = forest.rows[y];
  const int32_t* edges = forest.edges;
  int32_t a = above.begin, run = here.begin;
  while (a < above.end && run < here.end) {
    const int32_t past = edges[2 * run + 1], above_past = edges[2 * a + 1];
    if (edges[2 * a] < past + reach && edges[2 * run] < above_past + reach) forest.join(run, a);
    // The one that ends first meets nobody else. Without a branch, which nothing could predict.
    const int32_t next = above_past < past ? 1 : 0;
    a += next;
    run += 1 - next;
  }
}

// The same for label maps, whose runs may be adjacent: where two end together, each may meet the
// one after the other.
template <class T>
void join_rows(const Forest& forest, const LabelRows<T>& image, int64_t y, int32_t reach) {
  const RunRange above = forest.rows[y - 1], here = forest.rows[y];
  const int32_t* edges = forest.edges;
  int32_t first = above.begin;
  for (int32_t run = here.begin; run < here.end; ++run) {
    const int32_t begin = edges[2 * run] - reach, end = edges[2 * run + 1] + reach;
    while (first < above.end && edges[2 * first + 1] <= begin) ++first;
    for (int32_t a = first; a < above.end && edges[2 * a] < end; ++a) {
      if (image.same(y, edges[2 * run], y - 1, edges[2 * a])) forest.join(run, a);
    }
  }
}

// Finds and joins the runs of rows [begin, end), which get indices from `first` on.
template <class Rows>
void scan_rows(const Forest& forest, const Rows& image, int64_t begin, int64_t end, int32_t reach) {
  auto run = static_cast<int32_t>(begin * image.most());
  for (int64_t y = begin; y < end; ++y) {
    int32_t* edges = forest.edges + 2 * static_cast<int64_t>(run);
    const int64_t found = (image.edges(y, edges) - edges) / 2;
    forest.rows[y] = {run, static_cast<int32_t>(run + found)};
    for (; run < forest.rows[y].end; ++run) forest.links[run] = run;
    if (y > begin) join_rows(forest, image, y, reach);
  }
}

// Replaces the links of rows [begin, end) by numbers of components, after those of all rows before.
// Returns how many components begin there or before; `found` is how many begin before.
inline int32_t number_rows(const Forest& forest, int64_t begin, int64_t end, int32_t found) {
  for (int64_t y = begin; y < end; ++y) {
    for (int32_t run = forest.rows[y].begin; run < forest.rows[y].end; ++run) {
      const int32_t link = forest.links[run], number = forest.links[link];
      found += link == run ? 1 : 0;
      forest.links[run] = link == run ? found : number;
    }
  }
  return found;
}

// Rows of an image of `height` that are scanned at once, in `bands`.
struct Bands {
  int64_t height, bands;
  int64_t begin(int64_t band) const { return height * band / bands; }
};

// Scans and numbers an image in bands, on all threads; returns the number of components.
template <class Rows>
int32_t number_in_bands(const Forest& forest, const Rows& image, const Bands& bands, int32_t reach,
                        Workspace& workspace) {
  parallel_for(workspace, bands.bands, 1, [&](int64_t first, int64_t last) {
    for (int64_t band = first; band < last; ++band) {
      scan_rows(forest, image, bands.begin(band), bands.begin(band + 1), reach);
    }
  });
  for (int64_t band = 1; band < bands.bands; ++band) {
    join_rows(forest, image, bands.begin(band), reach);
  }
  return number_rows(forest, 0, bands.height, 0);
}

}  // namespace
}  // namespace visops
