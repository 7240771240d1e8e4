// NOTE [ Deformable attention's gradient of values on the CPU ]
// A task owns the gradient of one image and head, or of some rows of one of its levels where there
// are more threads than heads. It goes through the queries in order and adds what falls into its
// pixels. So every pixel's sum is in the order of NOTE [ Gradients of deformable attention ]
// (core/deformable/attention.h), however the work is divided, and there are no atomics and no
// lists.
//
// Rounding: sums are float32 (float64 for float64), without contraction. Assumes what the front
// checks.
#include "cpu/deformable/attention_samples.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

// A task's pixels: rows [first, last) of levels [begin, end).
struct TaskRows {
  int64_t begin, end;
  int64_t first, last;
};

// How an image's heads are divided: whole, or each level into `bands` of rows.
struct TaskPlan {
  bool is_split;
  int64_t bands, tasks;
};

inline TaskPlan plan_tasks(const AttentionParams& p, int64_t threads) {
  constexpr int64_t kTasksPerThread = 2;  // so that threads end together
  const int64_t heads = p.batch * p.heads, wanted = kTasksPerThread * threads;
  TaskPlan plan = {threads > 1 && heads < wanted, 1, 1};
  if (plan.is_split) {
    plan.bands = (wanted + heads * p.levels - 1) / (heads * p.levels);
    plan.tasks = p.levels * plan.bands;
  }
  return plan;
}

inline TaskRows rows_of_task(const AttentionParams& p, const TaskPlan& plan, int64_t task) {
  if (!plan.is_split) return {0, p.levels, 0, kMostSide};
  const int64_t level = task / plan.bands, band = task % plan.bands;
  const int64_t height = p.level[level].height;
  return {level, level + 1, height * band / plan.bands, height * (band + 1) / plan.bands};
}

template <class T, bool is_discrete>
class ValueGradient {
 public:
  using Acc = typename Accumulate<T>::type;

  ValueGradient(const AttentionParams& p, const SampleLevels& levels)
      : p_(p), levels_(levels), step_(p.heads * p.channels) {}

  void add(int64_t image, int64_t head, const TaskRows& rows) const {
    const AttentionLevel &from = p_.level[rows.begin], &to = p_.level[rows.end - 1];
    const int64_t begin = from.first_sample, end = to.first_sample + to.points;
    Acc* sums =
        static_cast<Acc*>(p_.grad_value) + image * p_.positions * step_ + head * p_.channels;
    for_samples_ahead<is_discrete, Acc>(
        p_, levels_, {image, head, 0, p_.queries, begin, end},
        [&](Samples<Acc>* samples) { drop_other_rows(rows, samples); },
        [&](int64_t row, const Samples<Acc>& here, const Samples<Acc>& next) {
          add_samples(here, next, static_cast<const T*>(p_.grad) + row * p_.channels, sums);
        });
  }

 private:
  void drop_other_rows(const TaskRows& rows, Samples<Acc>* s) const {
    if (rows.last == kMostSide) return;
    for (int64_t i = 0; i < s->count; ++i) {
      const int64_t y = s->y[i];
      if (y < rows.first || y >= rows.last) s->taps[i] &= kTap10 | kTap11;
      if (y + 1 < rows.first || y + 1 >= rows.last) s->taps[i] &= kTap00 | kTap01;
    }
  }

  void add_samples(const Samples<Acc>& s, const Samples<Acc>& next, const T* grad,
                   Acc* sums) const {
    const int64_t rest = for_parts<Acc>(p_.channels, [&](auto parts, int64_t c) {
      Part<Acc> factor[parts];
      for (int n = 0; n < parts; ++n) factor[n] = load_part(grad + c + n * kPartCount<Acc>);
      constexpr int64_t kBytes = parts * kPartCount<Acc> * static_cast<int64_t>(sizeof(Acc));
      fetch(next, sums + c, kBytes);
      for_taps(s, sums + c, [&](Acc weight, Acc* VISOPS_RESTRICT at) {
        const Part<Acc> w = repeated(weight);
        for (int n = 0; n < parts; ++n) {
          Acc* to = at + n * kPartCount<Acc>;
          store_part(to, load_part(to) + w * factor[n]);
        }
      });
    });
    if (rest == p_.channels) return;
    const int64_t left = p_.channels - rest;
    Acc factor[kPartCount<Acc>];
    for (int64_t c = 0; c < left; ++c) factor[c] = load_element(grad + rest + c);
    for_taps(s, sums + rest, [&](Acc weight, Acc* VISOPS_RESTRICT at) {
      for (int64_t c = 0; c < left; ++c) at[c] += weight * factor[c];
    });
  }

  void fetch(const Samples<Acc>& s, const Acc* sums, int64_t bytes) const {
    for (int64_t i = 0; i < s.count; ++i) {
      if (s.taps[i] == 0) continue;  // perhaps another task's
      fetch_taps<is_discrete, true>(s, i, sums, step_, levels_.width[s.first + i] * step_, bytes);
    }
  }

  // f(weight, sums) for all taps, in order.
  template <class F>
  VISOPS_ALWAYS_INLINE void for_taps(const Samples<Acc>& s, Acc* sums, const F& f) const {
    for (int64_t i = 0; i < s.count; ++i) {
      const int32_t taps = s.taps[i];
      if (taps == 0) continue;
      const int64_t row = levels_.width[s.first + i] * step_;
      Acc* first = sums + s.position[i] * step_;
      if constexpr (is_discrete) {
        f(s.weight[0][i], first);
      } else if (taps == kAllTaps) {
        f(s.weight[0][i], first);
        f(s.weight[1][i], first + step_);
        f(s.weight[2][i], first + row);
        f(s.weight[3][i], first + row + step_);
      } else {
        if ((taps & kTap00) != 0) f(s.weight[0][i], first);
        if ((taps & kTap01) != 0) f(s.weight[1][i], first + step_);
        if ((taps & kTap10) != 0) f(s.weight[2][i], first + row);
        if ((taps & kTap11) != 0) f(s.weight[3][i], first + row + step_);
      }
    }
  }

  const AttentionParams& p_;
  SampleLevels levels_;
  int64_t step_;  // elements of the gradient from one position to the next
};

// In the order of memory: a head's numbers are spread over all pages.
template <class Acc>
void clear_sums(const AttentionParams& p, Workspace& workspace) {
  Acc* sums = static_cast<Acc*>(p.grad_value);
  parallel_for(workspace, p.batch * p.positions * p.heads * p.channels, kGrain,
               [&](int64_t begin, int64_t end) {
                 memset(sums + begin, 0, static_cast<size_t>(end - begin) * sizeof(Acc));
               });
}

void backward_value_kernel(const AttentionParams& p, Workspace& workspace) {
  const SampleLevels levels = sample_levels(p, workspace);
  const TaskPlan plan = plan_tasks(p, workspace.threads());
  const int64_t cost = p.queries * 4 * p.samples * p.channels / plan.tasks;
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    clear_sums<typename Accumulate<T>::type>(p, workspace);
    const ValueGradient<T, is_discrete> gradient(p, levels);
    parallel_for(
        workspace, p.batch * p.heads * plan.tasks, grain_of(cost), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t plane = i / plan.tasks;
            gradient.add(plane / p.heads, plane % p.heads, rows_of_task(p, plan, i % plan.tasks));
          }
        });
  });
}

const bool registered = attention_backward_value_stub.set(kIsaSlot, backward_value_kernel);

}  // namespace
}  // namespace visops
