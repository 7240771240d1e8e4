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
#include "core/masks/distance.h"

#include <type_traits>

#include "cpu/masks/distance_across.h"
#include "cpu/masks/distance_search.h"
#include "cpu/masks/distance_sites.h"
#include "cpu/masks/partition.h"

namespace visops {
namespace {

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
