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
#pragma once

#include <cstdint>

#include "core/dispatch/workspace.h"
#include "core/platform.h"
#include "cpu/masks/partition.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
