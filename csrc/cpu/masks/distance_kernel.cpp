// Distance transforms on the CPU.
//
// NOTE [ Distances on the CPU ]
// Strategy: NOTE [ Distances ], with adjacent columns side by side in every pass. The first pass
// runs down the columns and up again. The others try pixels 1, 2, ... steps away, until no
// candidate can be better: vectors do that faster than anything else while distances are short.
// Where a row takes too many steps, its lower envelope is built instead (NOTE [ Lower envelope ]),
// which gives the same numbers.
//
// Split: tasks have masks. If there are fewer masks than threads, tasks share the columns, then the
// rows of a mask.
//
// Assumes what check_distance() established: squares don't overflow.
#include "core/masks/distance.h"

#include <type_traits>

#include "cpu/masks/distance_envelope.h"
#include "cpu/masks/distance_search.h"
#include "cpu/masks/split.h"

namespace visops {
namespace {

// Steps per block from which on a lower envelope is faster.
constexpr int64_t kManySteps = 40;

template <Metric kMetric, class T, bool kSites>
class Transform {
 public:
  // Scratch for so many tasks, which work on `slots` masks at a time.
  Transform(const DistanceParams& p, int64_t tasks, int64_t slots, Workspace& workspace)
      : p_(p), pixels_(pixels_of(p)), padded_((p.width + kBlock - 1) / kBlock * kBlock) {
    // A line with as many pixels before and after it, or all rows of a slab.
    line_ = padded_ * (p.depth > 3 ? p.depth : 3) + 2 * kBlock;
    near_ = allocate<T>(workspace, slots * pixels_);
    lines_ = allocate<T>(workspace, tasks * line_);
    stacks_ = allocate<int32_t>(workspace, tasks * 2 * p.width);
    sites_ = kSites ? allocate<int32_t>(workspace, slots * pixels_) : nullptr;
    line_sites_ = kSites ? allocate<int32_t>(workspace, tasks * line_) : nullptr;
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
    for (int64_t y = begin; y < end; ++y) slab(job, y);
  }

  // Rows [begin, end) of depth * height.
  void rows(const Job& job, int64_t begin, int64_t end) const {
    T* line = lines_ + job.task * line_;
    for (int64_t i = 0; i < line_; ++i) line[i] = far_of(T());  // around the row
    bool envelopes = false;
    for (int64_t row = begin; row < end; ++row) {
      // Neighbouring rows are alike, but look again now and then.
      envelopes = finish_row(job, row, envelopes && row % 16 != 0);
    }
  }

 private:
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
    T* below = lines_ + job.task * line_;
    int32_t* below_sites = kSites ? line_sites_ + job.task * line_ : nullptr;
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

  void slab(const Job& job, int64_t y) const {
    T* lines = lines_ + job.task * line_;
    int32_t* line_sites = kSites ? line_sites_ + job.task * line_ : nullptr;
    for (int64_t z = 0; z < p_.depth; ++z) load_row(job, z * p_.height + y, z * padded_);
    const T spacing = spacing_of(p_, 0, T());
    for (int64_t z = 0; z < p_.depth; ++z) {
      const int64_t row = (z * p_.height + y) * p_.width;
      for (int64_t x = 0; x < p_.width; x += kBlock) {
        const int64_t at = z * padded_ + x;
        const int64_t count = p_.width - x < kBlock ? p_.width - x : kBlock;
        Best<T, kSites> best;
        best.start(lines + at, line_sites + (kSites ? at : 0), count);
        search<kMetric>(best, p_.depth - 1, spacing, [&](int64_t k, T step) {
          for (const int64_t other : {z - k, z + k}) {
            if (other < 0 || other >= p_.depth) continue;
            const int64_t from = other * padded_ + x;
            best.template offer<kMetric>(lines + from, line_sites + (kSites ? from : 0), step);
          }
        });
        for (int64_t i = 0; i < count; ++i) {
          near(job)[row + x + i] = best.near[i];
          if constexpr (kSites) sites(job)[row + x + i] = best.site[i];
        }
      }
    }
  }

  // Copies a row to `at` in the task's line, and fills up the last block.
  void load_row(const Job& job, int64_t row, int64_t at) const {
    T* line = lines_ + job.task * line_ + at;
    const T* from = near(job) + row * p_.width;
    for (int64_t x = 0; x < padded_; ++x) line[x] = x < p_.width ? from[x] : far_of(T());
    if constexpr (kSites) {
      int32_t* line_sites = line_sites_ + job.task * line_ + at;
      const int32_t* from_sites = sites(job) + row * p_.width;
      for (int64_t x = 0; x < padded_; ++x) line_sites[x] = x < p_.width ? from_sites[x] : -1;
    }
  }

  // Returns whether the row was one for envelopes.
  bool finish_row(const Job& job, int64_t row, bool envelope) const {
    if constexpr (kMetric == Metric::kEuclidean && std::is_same<T, int32_t>::value) {
      if (envelope || !search_row(job, row, kManySteps)) return envelope_row(job, row);
    } else {
      search_row(job, row, p_.width);
    }
    return false;
  }

  // Whether that took no more than so many steps a block; if not, the row isn't finished.
  bool search_row(const Job& job, int64_t row, int64_t most_steps) const {
    T* line = lines_ + job.task * line_;
    int32_t* line_sites = kSites ? line_sites_ + job.task * line_ : nullptr;
    const int64_t first = padded_;  // as many before and after the row
    load_row(job, row, first);
    bool is_near = false;
    for (int64_t x = 0; x < p_.width; ++x) is_near |= line[first + x] < far_of(T());
    const int64_t reach = is_near ? p_.width - 1 : 0;
    const T spacing = spacing_of(p_, 2, T());
    int64_t steps = 0, blocks = 0;
    for (int64_t x = 0; x < p_.width; x += kBlock) {
      const int64_t at = first + x, count = p_.width - x < kBlock ? p_.width - x : kBlock;
      Best<T, kSites> best;
      best.start(line + at, line_sites + (kSites ? at : 0), count);
      steps += search<kMetric>(best, reach, spacing, [&](int64_t k, T step) {
        best.template offer<kMetric>(line + at - k, line_sites + (kSites ? at - k : 0), step);
        best.template offer<kMetric>(line + at + k, line_sites + (kSites ? at + k : 0), step);
      });
      if (steps > (++blocks + 4) * most_steps) return false;
      for (int64_t i = 0; i < count; ++i) {
        store(job, row * p_.width + x + i, best.near[i], kSites ? best.site[i] : 0);
      }
    }
    return true;
  }

  bool envelope_row(const Job& job, int64_t row) const {
    const int64_t first = row * p_.width;
    const int32_t* near = this->near(job) + first;
    const Envelope<kSites> envelope(near, kSites ? sites(job) + first : nullptr, p_.width,
                                    stacks_ + job.task * 2 * p_.width);
    if (envelope.is_empty()) {
      for (int64_t x = 0; x < p_.width; ++x) store(job, first + x, far_of(T()), -1);
      return true;
    }
    envelope.walk(
        [&](int64_t x, int32_t found, int32_t site) { store(job, first + x, found, site); });
    return true;
  }

  VISOPS_ALWAYS_INLINE void store(const Job& job, int64_t pixel, T near, int32_t site) const {
    p_.distances[job.mask * pixels_ + pixel] = final_distance(kMetric, near);
    if constexpr (kSites) store_index(p_, job.mask, pixel, site);
  }

  const DistanceParams& p_;
  int64_t pixels_, padded_, line_;
  T* near_;              // [slots, pixels]
  int32_t* sites_;       // likewise
  T* lines_;             // [tasks, line]
  int32_t* line_sites_;  // likewise
  int32_t* stacks_;      // [tasks, 2 * width]
};

// Sites of the chessboard: NOTE [ Distances ].
void find_on_shells(const DistanceParams& p, int64_t mask, int64_t begin, int64_t end) {
  const int64_t pixels = pixels_of(p);
  for (int64_t at = begin; at < end; ++at) {
    const float distance = p.distances[mask * pixels + at];
    store_index(p, mask, at, site_on_shell(p, p.masks + mask * pixels, at, distance));
  }
}

template <Metric kMetric, class T, bool kSites>
void transform(const DistanceParams& p, Workspace& workspace) {
  const int64_t pixels = pixels_of(p), rows = p.depth * p.height;
  const bool by_shells = kMetric == Metric::kChessboard && p.indices != nullptr;
  const int64_t bands = mask_bands(p.count, rows, p.width, workspace);
  using Job = typename Transform<kMetric, T, kSites>::Job;
  if (bands == 1) {
    const int64_t tasks = mask_tasks(p.count, rows, p.width, workspace);
    const Transform<kMetric, T, kSites> work(p, tasks, tasks, workspace);
    for_each_long_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
      for (int64_t mask = begin; mask < end; ++mask) {
        const Job job = {mask, task, task};
        work.columns(job, 0, p.width);
        work.slabs(job, 0, p.height);
        work.rows(job, 0, rows);
        if (by_shells) find_on_shells(p, mask, 0, pixels);
      }
    });
    return;
  }
  const Transform<kMetric, T, kSites> work(p, bands, 1, workspace);
  for (int64_t mask = 0; mask < p.count; ++mask) {
    const auto share = [&](int64_t count, const auto& body) {
      for_each_long_task(count, bands, workspace, [&](int64_t task, int64_t begin, int64_t end) {
        body(Job{mask, 0, task}, begin, end);
      });
    };
    share(p.width,
          [&](const Job& job, int64_t begin, int64_t end) { work.columns(job, begin, end); });
    share(p.height,
          [&](const Job& job, int64_t begin, int64_t end) { work.slabs(job, begin, end); });
    share(rows, [&](const Job& job, int64_t begin, int64_t end) { work.rows(job, begin, end); });
    if (!by_shells) continue;
    share(pixels,
          [&](const Job&, int64_t begin, int64_t end) { find_on_shells(p, mask, begin, end); });
  }
}

void distance_kernel(const DistanceParams& p, Workspace& workspace) {
  with_distance_types(p, [&](auto metric, auto zero, auto sites) {
    transform<metric, decltype(zero), sites>(p, workspace);
  });
}

const bool registered = distance_stub.set(kIsaSlot, distance_kernel);

}  // namespace
}  // namespace visops
