// A pass of a distance transform across rows: for some adjacent columns at once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/masks/distance_line.h"
#include "core/workspace.h"
#include "cpu/masks/distance_search.h"

namespace visops {
namespace {

// Steps of a block, on average, from which on solving its lines is faster.
constexpr int64_t many_steps(Metric metric) { return metric == Metric::kEuclidean ? 40 : 16; }

// A line whose pixels are adjacent; `sites` is null if not wanted.
template <class T>
struct RowLine {
  const T* nears;
  const int32_t* sites;

  T near(int64_t x) const { return nears[x]; }
  int32_t site(int64_t x) const { return sites[x]; }
};

struct RowRoom {
  int32_t* numbers;
  int64_t size;

  int32_t& first(int64_t x) const { return numbers[x]; }
  int32_t& second(int64_t x) const { return numbers[size + x]; }
};

// Scratch of a task.
template <class T>
struct AcrossRoom {
  T* lines;           // [size, columns], a block more, and a line
  int32_t* sites;     // likewise; null if not wanted
  int32_t* of_lines;  // [2, size]
};

template <class T>
AcrossRoom<T> allocate_across(Workspace& workspace, int64_t tasks, int64_t numbers, int64_t size,
                              bool with_sites) {
  return {allocate<T>(workspace, tasks * numbers),
          with_sites ? allocate<int32_t>(workspace, tasks * numbers) : nullptr,
          allocate<int32_t>(workspace, tasks * 2 * size)};
}

// Numbers of a task's lines.
inline int64_t across_numbers(int64_t size, int64_t width) {
  return size * ((width < kBlock ? width : kBlock) + 1) + kBlock;
}

// Whether pixels try candidates before lines are solved.
template <class T>
constexpr bool kSearches = std::is_same<T, int32_t>::value;

// Rows that begin `stride` apart.
template <class T>
struct Rows {
  T* near;
  int32_t* sites;
  int64_t stride;
};

// Solves the rows of `columns` lines side by side until that takes too many steps. Returns how many
// rows it has.
template <Metric kMetric, bool kSites, class Store>
int64_t search_across(const Rows<int32_t>& lines, int64_t size, int64_t columns,
                      const Store& store) {
  int64_t solved = 0;
  for (int64_t steps = 0; solved < size && steps <= (solved + 1) * many_steps(kMetric); ++solved) {
    Best<int32_t, kSites> best;
    const int64_t at = solved * columns;
    best.start(lines.near + at, lines.sites + (kSites ? at : 0), columns);
    steps += search<kMetric>(best, size - 1, [&](int64_t k, int32_t step) {
      for (const int64_t other : {solved - k, solved + k}) {
        if (other < 0 || other >= size) continue;
        const int64_t there = other * columns;
        best.template offer<kMetric>(lines.near + there, lines.sites + (kSites ? there : 0), step);
      }
    });
    for (int64_t i = 0; i < columns; ++i) {
      store(solved, i, best.near[i], kSites ? best.site[i] : -1);
    }
  }
  return solved;
}

// The taxicab: distances spread from row to row, once in each direction.
template <bool kSites, class Store>
void spread_across(const Rows<int32_t>& lines, int64_t size, int64_t columns, const Store& store) {
  const auto spread = [&](int64_t from, int64_t to) {
    const int32_t* VISOPS_RESTRICT nears = lines.near + from * columns;
    int32_t* VISOPS_RESTRICT near = lines.near + to * columns;
    const int32_t* VISOPS_RESTRICT from_sites = lines.sites + (kSites ? from * columns : 0);
    int32_t* VISOPS_RESTRICT sites = lines.sites + (kSites ? to * columns : 0);
    for (int64_t i = 0; i < columns; ++i) {
      const int32_t found = nears[i] + 1;
      if constexpr (kSites) {
        const bool wins = found < near[i] || (found == near[i] && from_sites[i] < sites[i]);
        sites[i] = wins ? from_sites[i] : sites[i];
      }
      near[i] = found < near[i] ? found : near[i];
    }
  };
  for (int64_t k = 1; k < size; ++k) spread(k - 1, k);
  for (int64_t k = size - 1; k >= 0; --k) {
    if (k + 1 < size) spread(k + 1, k);
    for (int64_t i = 0; i < columns; ++i) {
      store(k, i, lines.near[k * columns + i], kSites ? lines.sites[k * columns + i] : -1);
    }
  }
}

// store(k, i, distance, site) for pixel i of each row k; it may write to `from`. There are `size`
// rows of `columns` pixels, kBlock at most.
template <Metric kMetric, class T, bool kSites, class Store>
void pass_across(const Rows<T>& from, int64_t size, int64_t columns, T spacing,
                 const AcrossRoom<T>& room, const Store& store) {
  Rows<T> rows = from;
  if constexpr (kSearches<T>) {
    rows = {room.lines, room.sites, columns};
    const int64_t all = size * columns;
    for (int64_t k = 0; k < size; ++k) {
      for (int64_t i = 0; i < columns; ++i) {
        rows.near[k * columns + i] = from.near[k * from.stride + i];
        if (kSites) rows.sites[k * columns + i] = from.sites[k * from.stride + i];
      }
    }
    if constexpr (kMetric == Metric::kTaxicab) {
      return spread_across<kSites>(rows, size, columns, store);
    }
    for (int64_t i = all; i < all + kBlock; ++i) {  // blocks read beyond
      rows.near[i] = far_of(T());
      if (kSites) rows.sites[i] = -1;
    }
    if (search_across<kMetric, kSites>(rows, size, columns, store) == size) return;
  }
  const int64_t line = kSearches<T> ? size * columns + kBlock : 0;
  T* near = room.lines + line;
  int32_t* sites = kSites ? room.sites + line : nullptr;
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t k = 0; k < size; ++k) {
      near[k] = rows.near[k * rows.stride + i];
      if (kSites) sites[k] = rows.sites[k * rows.stride + i];
    }
    solve_line<kMetric, T, kSites>(
        RowLine<T>{near, sites}, size, spacing, RowRoom{room.of_lines, size},
        [&](int64_t k, T found, int32_t site) { store(k, i, found, site); });
  }
}

}  // namespace
}  // namespace visops
