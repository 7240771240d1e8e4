// Distance transforms on the CPU.
//
// NOTE [ Distances on the CPU ]
// Strategy: NOTE [ Distances ], with adjacent columns side by side in every pass but that along
// rows. The first pass runs down the columns and up again. With squares of 32 bits, the others try
// pixels 1, 2, ... steps away, until no candidate can be better: vectors do that faster than
// anything else while distances are short. Where that takes too many steps, lines are solved
// instead (NOTE [ Lines ]), which gives the same numbers.
//
// Split: tasks have masks. If there are fewer masks than threads, tasks share the columns, then the
// rows of a mask.
//
// Assumes what check_distance() established: squares don't overflow.
#include <cstdint>
#include <type_traits>

#include "core/dispatch/workspace.h"
#include "core/masks/distance.h"
#include "cpu/masks/distance_search.h"
#include "cpu/masks/partition.h"

namespace visops {
namespace {

// A pass of a distance transform across rows: for some adjacent columns at once.

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

// NOTE [ Sites of the chessboard ] (core/masks/distance.h) on the CPU.

// Distances of one mask at a time: along rows, then within planes, then in all. `slots` masks are
// worked on at once.
class ChessboardSites {
 public:
  using Room = AcrossRoom<int32_t>;

  ChessboardSites(const DistanceParams& p, int64_t tasks, int64_t slots, Workspace& workspace)
      : p_(p), pixels_(pixels_of(p)), blocks_((p.width + kBlock - 1) / kBlock) {
    longest_ = p.depth > p.height ? p.depth : p.height;
    numbers_ = across_numbers(longest_, p.width);
    room_ = allocate_across<int32_t>(workspace, tasks, numbers_, longest_, false);
    along_ = allocate<int32_t>(workspace, slots * pixels_);
    within_ = p.dims == 3 ? allocate<int32_t>(workspace, slots * pixels_) : nullptr;
    of_rows_ = allocate_levels(along_, p.depth, p.height, p.width, slots, workspace);
    if (p.dims == 3) {
      of_planes_ = allocate_levels(within_, 1, p.depth, p.height * p.width, slots, workspace);
    }
  }

  // share(count, body) calls body(task, begin, end) for parts of `count` items.
  template <class Share>
  void find(int64_t mask, int64_t slot, const Share& share) const {
    const int64_t rows = p_.depth * p_.height;
    share(rows, [&](int64_t, int64_t begin, int64_t end) { along_rows(mask, slot, begin, end); });
    fill(of_rows_, slot, p_.depth, share);
    share(p_.depth * blocks_, [&](int64_t task, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t z = i / blocks_, x = i % blocks_ * kBlock;
        across(mask, slot, task, z * p_.height * p_.width + x, x, p_.height, p_.width, false);
      }
    });
    if (p_.dims == 3) {
      fill(of_planes_, slot, 1, share);
      share(p_.height * blocks_, [&](int64_t task, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t y = i / blocks_, x = i % blocks_ * kBlock;
          across(mask, slot, task, y * p_.width + x, x, p_.depth, p_.height * p_.width, true);
        }
      });
    }
    const ChessboardTrees trees = {tree_at(of_rows_, slot, p_.depth),
                                   p_.dims == 3 ? tree_at(of_planes_, slot, 1) : LeastTree{}};
    share(rows, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto z = static_cast<int32_t>(row / p_.height);
        const auto y = static_cast<int32_t>(row - z * p_.height);
        for (int32_t x = 0; x < p_.width; ++x) {
          const int64_t at = row * p_.width + x;
          const float distance = p_.distances[mask * pixels_ + at];
          store_index(p_, mask, at, chessboard_site(p_, trees, 0, {z, y, x}, distance));
        }
      }
    });
  }

 private:
  // The trees of all slots, one slot after another in each level.
  struct Levels {
    LeastTree tree;
    int32_t* least[LeastTree::kLevels];
  };

  static Levels allocate_levels(int32_t* distances, int64_t outer, int64_t size, int64_t inner,
                                int64_t slots, Workspace& workspace) {
    Levels levels = {tree_of(distances, size, inner), {distances}};
    for (int l = 1; l < levels.tree.levels; ++l) {
      levels.least[l] = allocate<int32_t>(workspace, slots * outer * levels.tree.size[l] * inner);
    }
    return levels;
  }

  LeastTree tree_at(const Levels& levels, int64_t slot, int64_t outer) const {
    LeastTree tree = levels.tree;
    for (int l = 0; l < tree.levels; ++l) {
      tree.least[l] = levels.least[l] + slot * outer * tree.size[l] * tree.inner;
    }
    return tree;
  }

  template <class Share>
  void fill(const Levels& levels, int64_t slot, int64_t outer, const Share& share) const {
    const LeastTree tree = tree_at(levels, slot, outer);
    for (int l = 1; l < tree.levels; ++l) {
      int32_t* least = levels.least[l] + slot * outer * tree.size[l] * tree.inner;
      share(outer * tree.size[l], [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t at = 0; at < tree.inner; ++at) {
            least[i * tree.inner + at] = least_of_children(tree, l - 1, i, at);
          }
        }
      });
    }
  }

  void along_rows(int64_t mask, int64_t slot, int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* pixels = p_.masks + mask * pixels_ + row * p_.width;
      int32_t* along = along_ + slot * pixels_ + row * p_.width;
      int32_t distance = kFar;
      for (int64_t x = 0; x < p_.width; ++x) {
        distance = pixels[x] == 0 ? 0 : distance < kFar ? distance + 1 : kFar;
        along[x] = distance;
      }
      distance = kFar;
      for (int64_t x = p_.width - 1; x >= 0; --x) {
        distance = distance < kFar ? distance + 1 : kFar;
        distance = along[x] < distance ? along[x] : distance;
        along[x] = distance;
      }
    }
  }

  // From columns [x, x + kBlock) of the lines that begin at `first`; is_last: the distances in all.
  void across(int64_t mask, int64_t slot, int64_t task, int64_t first, int64_t x, int64_t size,
              int64_t stride, bool is_last) const {
    int32_t* near = (is_last ? within_ : along_) + slot * pixels_ + first;
    int32_t* within = p_.dims == 3 ? within_ + slot * pixels_ + first : nullptr;
    float* found = p_.distances + mask * pixels_ + first;
    const bool is_final = is_last || p_.dims == 2;
    const Room room = {room_.lines + task * numbers_, nullptr,
                       room_.of_lines + task * 2 * longest_};
    pass_across<Metric::kChessboard, int32_t, false>(
        {near, nullptr, stride}, size, p_.width - x < kBlock ? p_.width - x : kBlock, 1, room,
        [&](int64_t k, int64_t i, int32_t distance, int32_t) {
          if (is_final) {
            found[k * stride + i] = final_distance(p_, Metric::kChessboard, distance);
          } else {
            within[k * stride + i] = distance;
          }
        });
  }

  const DistanceParams& p_;
  int64_t pixels_, blocks_, longest_, numbers_;
  Room room_;
  int32_t* along_;   // [slots, pixels]
  int32_t* within_;  // likewise
  Levels of_rows_, of_planes_ = {};
};

template <Metric kMetric, class T, bool kSites>
class Transform {
 public:
  // Scratch for so many tasks, which work on `slots` masks at a time.
  Transform(const DistanceParams& p, int64_t tasks, int64_t slots, Workspace& workspace)
      : p_(p), pixels_(pixels_of(p)), padded_((p.width + kBlock - 1) / kBlock * kBlock) {
    // A row with as many pixels before and after it, or some columns of all planes.
    const int64_t row = kSearches<T> ? 3 * padded_ : p.width;
    const int64_t across = across_numbers(p.depth, p.width);
    longest_ = p.depth > p.width ? p.depth : p.width;
    line_ = row > across ? row : across;
    rooms_ = allocate_across<T>(workspace, tasks, line_, longest_, kSites);
    near_ = allocate<T>(workspace, slots * pixels_);
    sites_ = kSites ? allocate<int32_t>(workspace, slots * pixels_) : nullptr;
  }

  // A mask, and the scratch of the task that has it.
  struct Job {
    int64_t mask, slot, task;
  };

  // Distances along columns [begin, end) of all rows of planes.
  void columns(const Job& job, int64_t begin, int64_t end) const {
    for (int64_t z = 0; z < p_.depth; ++z) plane_columns(job, z, begin, end);
  }

  // Rows [begin, end) of all planes, which see each other.
  void slabs(const Job& job, int64_t begin, int64_t end) const {
    if (p_.depth == 1) return;
    const int64_t stride = p_.height * p_.width;
    for (int64_t y = begin; y < end; ++y) {
      for (int64_t x = 0; x < p_.width; x += kBlock) {
        T* near = this->near(job) + y * p_.width + x;
        int32_t* sites = kSites ? this->sites(job) + y * p_.width + x : nullptr;
        pass_across<kMetric, T, kSites>(
            {near, sites, stride}, p_.depth, p_.width - x < kBlock ? p_.width - x : kBlock,
            spacing_of(p_, 0, T()), room(job), [&](int64_t z, int64_t i, T found, int32_t site) {
              near[z * stride + i] = found;
              if constexpr (kSites) sites[z * stride + i] = site;
            });
      }
    }
  }

  // Rows [begin, end) of depth * height.
  void rows(const Job& job, int64_t begin, int64_t end) const {
    T* line = room(job).lines;
    if (kSearches<T>) {
      for (int64_t i = 0; i < line_; ++i) line[i] = far_of(T());  // around the row
    }
    bool is_far = !kSearches<T>;
    for (int64_t row = begin; row < end; ++row) {
      // Neighbouring rows are alike, but look again now and then.
      is_far = (is_far && (!kSearches<T> || row % 16 != 0)) || !search_row(job, row);
      if (is_far) solve_row(job, row);
    }
  }

 private:
  AcrossRoom<T> room(const Job& job) const {
    return {rooms_.lines + job.task * line_, kSites ? rooms_.sites + job.task * line_ : nullptr,
            rooms_.of_lines + job.task * 2 * longest_};
  }
  T* near(const Job& job) const { return near_ + job.slot * pixels_; }
  int32_t* sites(const Job& job) const { return kSites ? sites_ + job.slot * pixels_ : nullptr; }
  const uint8_t* mask(const Job& job) const { return p_.masks + job.mask * pixels_; }

  // From steps along the column to what the next pass adds to.
  T near_of(T steps) const {
    if constexpr (kMetric != Metric::kEuclidean) {
      return steps < far_of(T()) ? steps : far_of(T());
    } else {
      const T known = steps < far_of(T()) ? steps : static_cast<T>(0);
      const T length = known * spacing_of(p_, 1, T());
      return steps < far_of(T()) ? length * length : far_of(T());
    }
  }

  void plane_columns(const Job& job, int64_t z, int64_t begin, int64_t end) const {
    const int64_t width = p_.width, first = z * p_.height * width;
    T* near = this->near(job) + first;
    int32_t* sites = kSites ? this->sites(job) + first : nullptr;
    const uint8_t* mask = this->mask(job) + first;
    for (int64_t y = 0; y < p_.height; ++y) {
      for (int64_t x = begin; x < end; ++x) {
        const int64_t at = y * width + x;
        const bool inside = mask[at] != 0;
        const T above = y > 0 ? near[at - width] + static_cast<T>(1) : far_of(T());
        near[at] = inside ? above : static_cast<T>(0);
        if constexpr (kSites) {
          const int32_t site = y > 0 ? sites[at - width] : -1;
          sites[at] = inside ? site : static_cast<int32_t>(first + at);
        }
      }
    }
    T* below = room(job).lines;
    int32_t* below_sites = room(job).sites;
    for (int64_t x = begin; x < end; ++x) {
      below[x] = far_of(T());
      if constexpr (kSites) below_sites[x] = -1;
    }
    for (int64_t y = p_.height - 1; y >= 0; --y) {
      for (int64_t x = begin; x < end; ++x) {
        const int64_t at = y * width + x;
        const T other = below[x] + static_cast<T>(1);
        const bool wins = other < near[at];
        below[x] = wins ? other : near[at];
        near[at] = near_of(below[x]);
        if constexpr (kSites) {
          sites[at] = wins ? below_sites[x] : sites[at];
          below_sites[x] = sites[at];
        }
      }
    }
  }

  // Whether that took only a few steps a block; if not, the row isn't finished.
  bool search_row(const Job& job, int64_t row) const {
    if constexpr (!kSearches<T>) return false;
    T* line = room(job).lines + padded_;  // as many pixels before and after the row
    int32_t* line_sites = kSites ? room(job).sites + padded_ : nullptr;
    const T* from = near(job) + row * p_.width;
    const int32_t* from_sites = kSites ? sites(job) + row * p_.width : nullptr;
    bool is_near = false;
    for (int64_t x = 0; x < padded_; ++x) {
      line[x] = x < p_.width ? from[x] : far_of(T());
      is_near |= line[x] < far_of(T());
      if (kSites) line_sites[x] = x < p_.width ? from_sites[x] : -1;
    }
    const int64_t reach = is_near ? p_.width - 1 : 0;
    int64_t steps = 0, blocks = 0;
    for (int64_t x = 0; x < p_.width; x += kBlock) {
      const int64_t count = p_.width - x < kBlock ? p_.width - x : kBlock;
      Best<T, kSites> best;
      best.start(line + x, line_sites + (kSites ? x : 0), count);
      steps += search<kMetric>(best, reach, [&](int64_t k, T step) {
        best.template offer<kMetric>(line + x - k, line_sites + (kSites ? x - k : 0), step);
        best.template offer<kMetric>(line + x + k, line_sites + (kSites ? x + k : 0), step);
      });
      if (steps > (++blocks + 1) * many_steps(kMetric)) return false;
      finish(job, row * p_.width + x, count, best.near);
      if constexpr (kSites) {
        for (int64_t i = 0; i < count; ++i) {
          store_index(p_, job.mask, row * p_.width + x + i, best.site[i]);
        }
      }
    }
    return true;
  }

  void solve_row(const Job& job, int64_t row) const {
    const int64_t first = row * p_.width;
    const RowLine<T> line = {near(job) + first, kSites ? sites(job) + first : nullptr};
    T* solved = room(job).lines + (kSearches<T> ? padded_ : 0);
    solve_line<kMetric, T, kSites>(line, p_.width, spacing_of(p_, 2, T()),
                                   RowRoom{room(job).of_lines, p_.width},
                                   [&](int64_t x, T found, int32_t site) {
                                     solved[x] = found;
                                     if constexpr (kSites)
                                       store_index(p_, job.mask, first + x, site);
                                   });
    finish(job, first, p_.width, solved);
  }

  // Writes distances of adjacent pixels.
  void finish(const Job& job, int64_t pixel, int64_t count, const T* VISOPS_RESTRICT near) const {
    float* VISOPS_RESTRICT distances = p_.distances + job.mask * pixels_ + pixel;
    const auto exact = static_cast<T>(kExactSquare);
    T farthest = 0;
    for (int64_t i = 0; i < count; ++i) farthest = near[i] > farthest ? near[i] : farthest;
    if (kMetric == Metric::kEuclidean && kSearches<T> && p_.scale == 1.0 && farthest <= exact) {
      // final_distance() without a choice, so that it vectorises.
      for (int64_t i = 0; i < count; ++i) distances[i] = sqrtf(static_cast<float>(near[i]));
    } else {
      for (int64_t i = 0; i < count; ++i) distances[i] = final_distance(p_, kMetric, near[i]);
    }
  }

  const DistanceParams& p_;
  int64_t pixels_, padded_, line_, longest_;
  AcrossRoom<T> rooms_;  // of all tasks
  T* near_;              // [slots, pixels]
  int32_t* sites_;       // likewise
};

// make(tasks, slots) returns steps(mask, slot, share), which does all steps of a mask; share(count,
// body) hands out the items of a step by body(task, begin, end).
template <class Make>
void for_each_mask(const DistanceParams& p, Workspace& workspace, const Make& make) {
  const int64_t rows = p.depth * p.height;
  const int64_t bands = mask_bands(p.count, rows, p.width, workspace);
  if (bands == 1) {
    const int64_t tasks = mask_tasks(p.count, rows, p.width, workspace);
    const auto steps = make(tasks, tasks);
    for_each_long_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
      const auto all = [&](int64_t count, const auto& body) { body(task, 0, count); };
      for (int64_t mask = begin; mask < end; ++mask) steps(mask, task, all);
    });
    return;
  }
  const auto steps = make(bands, 1);
  for (int64_t mask = 0; mask < p.count; ++mask) {
    steps(mask, 0, [&](int64_t count, const auto& body) {
      for_each_long_task(count, bands, workspace, body);
    });
  }
}

template <Metric kMetric, class T, bool kSites>
void transform(const DistanceParams& p, Workspace& workspace) {
  using Passes = Transform<kMetric, T, kSites>;
  using Job = typename Passes::Job;
  if constexpr (kMetric == Metric::kChessboard) {
    if (p.indices != nullptr) {
      for_each_mask(p, workspace, [&](int64_t tasks, int64_t slots) {
        return
            [passes = ChessboardSites(p, tasks, slots, workspace)](
                int64_t mask, int64_t slot, const auto& share) { passes.find(mask, slot, share); };
      });
      return;
    }
  }
  for_each_mask(p, workspace, [&](int64_t tasks, int64_t slots) {
    return [&p, passes = Passes(p, tasks, slots, workspace)](int64_t mask, int64_t slot,
                                                             const auto& share) {
      const auto pass = [&](int64_t count,
                            void (Passes::*part)(const Job&, int64_t, int64_t) const) {
        share(count, [&](int64_t task, int64_t begin, int64_t end) {
          (passes.*part)({mask, slot, task}, begin, end);
        });
      };
      pass(p.width, &Passes::columns);
      pass(p.height, &Passes::slabs);
      pass(p.depth * p.height, &Passes::rows);
    };
  });
}

void distance_kernel(const DistanceParams& p, Workspace& workspace) {
  with_distance_types(p, [&](auto metric, auto zero, auto sites) {
    transform<metric, decltype(zero), sites>(p, workspace);
  });
}

const bool registered = distance_stub.set(kIsaSlot, distance_kernel);

}  // namespace
}  // namespace visops
