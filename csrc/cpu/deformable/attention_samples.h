// The samples of one query and head, placed before any channel is read: NOTE [ Samples of
// deformable attention ] (core/deformable/attention.h) as loops that vectorise over samples.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/deformable/attention.h"
#include "core/dispatch/threads.h"
#include "core/numbers/element.h"
#include "cpu/deformable/taps.h"
#include "cpu/prefetch.h"

namespace visops {
namespace {

constexpr int64_t kSamplesAtOnce = 64;

// What samples need to know of their levels; arrays of [samples].
struct SampleLevels {
  const int32_t *height, *width;
  const int32_t* start;     // the level's first position
  const int64_t* row_step;  // elements of value from one row to the next
};

inline SampleLevels sample_levels(const AttentionParams& p, Workspace& workspace) {
  int32_t* height = allocate<int32_t>(workspace, p.samples);
  int32_t* width = allocate<int32_t>(workspace, p.samples);
  int32_t* start = allocate<int32_t>(workspace, p.samples);
  int64_t* row_step = allocate<int64_t>(workspace, p.samples);
  for (int64_t l = 0; l < p.levels; ++l) {
    const AttentionLevel& level = p.level[l];
    for (int64_t i = level.first_sample; i < level.first_sample + level.points; ++i) {
      height[i] = static_cast<int32_t>(level.height);
      width[i] = static_cast<int32_t>(level.width);
      start[i] = static_cast<int32_t>(level.start);
      row_step[i] = level.width * p.position_stride;
    }
  }
  return {height, width, start, row_step};
}

// A query's samples of one head, up to kSamplesAtOnce at a time.
template <class Acc>
struct Samples {
  int64_t first;  // among the head's samples
  int64_t count;
  int32_t y[kSamplesAtOnce], x[kSamplesAtOnce];
  int32_t taps[kSamplesAtOnce];      // 0 where a sample doesn't count
  int32_t position[kSamplesAtOnce];  // of the tap 00, which may not exist
  Acc fy[kSamplesAtOnce], fx[kSamplesAtOnce], attention[kSamplesAtOnce];
  Acc weight[4][kSamplesAtOnce];
};

// Samples [first, first + count) of a query and head, whose index among all is `row`.
template <bool is_discrete, class Acc>
void locate_samples(const AttentionParams& p, const SampleLevels& levels, int64_t row,
                    int64_t first, int64_t count, Samples<Acc>* VISOPS_RESTRICT s) {
  Acc pairs[2 * kSamplesAtOnce];
  const int64_t at = row * p.samples + first;
  read_numbers(p.locations, p.locations_dtype, 2 * at, 2 * count, pairs);
  read_numbers(p.weights, p.weights_dtype, at, count, s->attention);
  s->first = first;
  s->count = count;
  const int32_t* VISOPS_RESTRICT heights = levels.height + first;
  const int32_t* VISOPS_RESTRICT widths = levels.width + first;
  const int32_t* VISOPS_RESTRICT starts = levels.start + first;
  for (int64_t i = 0; i < count; ++i) {
    const BilinearSample<Acc> bilinear =
        locate_sample<is_discrete>(pairs[2 * i], pairs[2 * i + 1], heights[i], widths[i]);
    Acc weight[4];
    tap_weights<is_discrete>(bilinear, s->attention[i], weight);
    s->y[i] = bilinear.y;
    s->x[i] = bilinear.x;
    s->fy[i] = bilinear.fy;
    s->fx[i] = bilinear.fx;
    s->taps[i] = bilinear.taps;
    s->position[i] = starts[i] + bilinear.y * widths[i] + bilinear.x;
    s->weight[0][i] = weight[0];  // not a loop, so that this one is vectorised
    s->weight[1][i] = weight[1];
    s->weight[2][i] = weight[2];
    s->weight[3][i] = weight[3];
  }
}

// f(samples) for samples [begin, end) of a query and head, some at a time.
template <bool is_discrete, class Acc, class F>
VISOPS_ALWAYS_INLINE void for_samples(const AttentionParams& p, const SampleLevels& levels,
                                      int64_t row, int64_t begin, int64_t end, const F& f) {
  Samples<Acc> samples;
  for (int64_t first = begin; first < end; first += kSamplesAtOnce) {
    const int64_t left = end - first;
    locate_samples<is_discrete>(p, levels, row, first,
                                left < kSamplesAtOnce ? left : kSamplesAtOnce, &samples);
    f(samples);
  }
}

// The taps of sample i. Those outside the map are `zeros`; a sample must count.
template <class T, class Acc>
VISOPS_ALWAYS_INLINE void find_taps(const Samples<Acc>& s, int64_t i, const T* head,
                                    int64_t position_stride, int64_t row_step, const T* zeros,
                                    const T* (&tap)[4]) {
  find_taps(s.taps[i], head + s.position[i] * position_stride, position_stride, row_step, zeros,
            tap);
}

// Asks for the taps of sample i, whether or not they exist. Their places are random, so that
// nothing else could fetch them in time.
template <bool is_discrete, bool is_written = false, class T, class Acc>
VISOPS_ALWAYS_INLINE void fetch_taps(const Samples<Acc>& s, int64_t i, const T* head,
                                     int64_t position_stride, int64_t row_step, int64_t bytes) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T));
  const int64_t right = position_stride * kSize, below = row_step * kSize;
  const int64_t tap = address_of(head) + s.position[i] * right;
  prefetch<is_written>(tap, bytes);
  if (is_discrete) return;
  prefetch<is_written>(tap + right, bytes);
  prefetch<is_written>(tap + below, bytes);
  prefetch<is_written>(tap + below + right, bytes);
}

// Asks for the locations and weights of a query and head. Those of one head lie far apart.
inline void fetch_numbers(const AttentionParams& p, int64_t row) {
  const int64_t pair = 2 * element_size(p.locations_dtype) * p.samples;
  const int64_t weight = element_size(p.weights_dtype) * p.samples;
  prefetch(address_of(p.locations) + row * pair, pair);
  prefetch(address_of(p.weights) + row * weight, weight);
}

// The samples of queries [first, last) of an image and head, of which [begin, end) are wanted.
struct SamplesOfQueries {
  int64_t image, head, first, last, begin, end;
};

// f(row, samples, next), some samples at a time and in order; row is the index of query and head
// among all. `next` comes with the following call: f asks for its taps. prepare(&samples) is
// called once for each, before f sees them.
template <bool is_discrete, class Acc, class Prepare, class F>
VISOPS_ALWAYS_INLINE void for_samples_ahead(const AttentionParams& p, const SampleLevels& levels,
                                            const SamplesOfQueries& of, const Prepare& prepare,
                                            const F& f) {
  constexpr int64_t kQueriesAhead = 4;  // whose numbers are asked for while one is computed
  struct Turn {
    int64_t row, first;
  };
  const auto after = [&](const Turn& turn) -> Turn {
    const int64_t first = turn.first + kSamplesAtOnce;
    return first < of.end ? Turn{turn.row, first} : Turn{turn.row + p.heads, of.begin};
  };
  const auto locate = [&](const Turn& turn, Samples<Acc>* samples) {
    fetch_numbers(p, turn.row + kQueriesAhead * p.heads);
    const int64_t left = of.end - turn.first;
    locate_samples<is_discrete>(p, levels, turn.row, turn.first,
                                left < kSamplesAtOnce ? left : kSamplesAtOnce, samples);
    prepare(samples);
  };
  const auto row_of = [&](int64_t query) {
    return (of.image * p.queries + query) * p.heads + of.head;
  };
  const int64_t end_row = row_of(of.last);
  Turn turn = {row_of(of.first), of.begin};
  if (turn.row >= end_row) return;
  Samples<Acc> located[2] = {};
  locate(turn, &located[0]);
  for (int which = 0; turn.row < end_row; which = 1 - which) {
    const Turn next = after(turn);
    const bool is_last = next.row >= end_row;
    if (!is_last) locate(next, &located[1 - which]);
    f(turn.row, located[which], located[is_last ? which : 1 - which]);
    turn = next;
  }
}

// f(image, head, first, last): queries [first, last), for the part of [begin, end) among
// batch x heads x queries. Queries vary fastest, so that a head's values stay in the caches.
template <class F>
VISOPS_ALWAYS_INLINE void for_queries(const AttentionParams& p, int64_t begin, int64_t end,
                                      const F& f) {
  while (begin < end) {
    const int64_t plane = begin / p.queries, first = begin - plane * p.queries;
    const int64_t left = p.queries - first;
    const int64_t count = left < end - begin ? left : end - begin;
    f(plane / p.heads, plane % p.heads, first, first + count);
    begin += count;
  }
}

// f(T*, is_discrete), both constants.
template <class F>
VISOPS_ALWAYS_INLINE void with_types(const AttentionParams& p, const F& f) {
  with_floating_type(p.dtype, [&](auto* element) {
    if (p.method == AttentionMethod::kDiscrete) {
      f(element, std::true_type());
    } else {
      f(element, std::false_type());
    }
  });
}

// Queries worth a task.
inline int64_t query_grain(const AttentionParams& p) {
  return grain_of(4 * p.samples * (p.channels > 8 ? p.channels : 8));
}

}  // namespace
}  // namespace visops
