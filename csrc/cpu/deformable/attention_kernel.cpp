// NOTE [ Deformable attention on the CPU ]
// A query's samples of a head are placed first, in vectors of samples; then each sample's taps are
// read in vectors of channels and added in registers, four vectors at a time. Samples whose four
// taps all lie in the map take no branch but one. Taps outside point at zeros. Work is split by
// image, head and query, in this order: neighbouring queries of a head read the same values.
//
// Most of the time would be spent waiting for the first line of each tap. So the next query is
// placed before this one is computed, and its taps are asked for meanwhile; a query's numbers are
// asked for even earlier. Gradients do the same.
//
// Rounding: NOTE [ Samples of deformable attention ] (core/deformable/attention.h), without
// contraction. Assumes what the front checks.
#include <cstring>
#include <type_traits>

#include "core/numbers/element.h"
#include "cpu/deformable/attention_samples.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

// Parts of adjacent channels that are loaded together, in whatever order is cheapest. Sums over
// samples don't mix channels, so only the store has to know.
//
// A bfloat16 is the upper half of a float: of a register of pairs, a shift gives the first of each
// and a mask the second. Widening them in order would take a shuffle more for each part.

// How many of N parts are loaded together.
#if defined(__GNUC__)
template <class T, int N>
constexpr int kTogether = std::is_same<T, BFloat16>::value && N % 2 == 0 ? 2 : 1;
#else
template <class T, int N>
constexpr int kTogether = 1;
#endif

template <class T, class P>
VISOPS_ALWAYS_INLINE void load_together(const T* from, P (&parts)[1]) {
  parts[0] = load_part(from);
}
template <class T, class P>
VISOPS_ALWAYS_INLINE void store_together(T* to, const P (&parts)[1]) {
  store_part(to, parts[0]);
}

#if defined(__GNUC__)
// parts[0] gets the even channels, parts[1] the odd ones.
VISOPS_ALWAYS_INLINE void load_together(const BFloat16* from, Floats (&parts)[2]) {
  using Words = Register<uint32_t>::type;
  Words pairs;
  memcpy(&pairs, from, sizeof(pairs));
  const Words even = pairs << 16, odd = pairs & 0xffff0000u;
  memcpy(&parts[0], &even, sizeof(even));
  memcpy(&parts[1], &odd, sizeof(odd));
}

VISOPS_ALWAYS_INLINE void store_together(BFloat16* to, const Floats (&parts)[2]) {
  constexpr int kWidth = Floats::kWidth;
  float even[kWidth], odd[kWidth], both[2 * kWidth];
  parts[0].store(even);
  parts[1].store(odd);
  for (int i = 0; i < kWidth; ++i) {
    both[2 * i] = even[i];
    both[2 * i + 1] = odd[i];
  }
  store_part(to, Floats::load(both));
  store_part(to + kWidth, Floats::load(both + kWidth));
}
#endif

template <class T, bool is_discrete>
class Attention {
 public:
  using Acc = typename Accumulate<T>::type;

  Attention(const AttentionParams& p, const SampleLevels& levels, const T* zeros)
      : p_(p), levels_(levels), zeros_(zeros) {}

  void compute(int64_t begin, int64_t end) const {
    for_queries(p_, begin, end, [&](int64_t image, int64_t head, int64_t first, int64_t last) {
      const T* values = static_cast<const T*>(p_.value) + head_offset(p_, image, head);
      const auto out_of = [&](int64_t row) {
        return static_cast<T*>(p_.output) + row * p_.channels;
      };
      if (p_.samples <= kSamplesAtOnce) {
        for_samples_ahead<is_discrete, Acc>(
            p_, levels_, {image, head, first, last, 0, p_.samples}, [](Samples<Acc>*) {},
            [&](int64_t row, const Samples<Acc>& here, const Samples<Acc>& next) {
              compute_query(values, out_of(row), [&](const auto& f) { f(here, next); });
            });
        return;
      }
      for (int64_t q = first; q < last; ++q) {
        const int64_t row = (image * p_.queries + q) * p_.heads + head;
        compute_query(values, out_of(row), [&](const auto& f) {
          for_samples<is_discrete, Acc>(p_, levels_, row, 0, p_.samples,
                                        [&](const Samples<Acc>& samples) { f(samples, samples); });
        });
      }
    });
  }

 private:
  // for_all(f) calls f(samples, samples to fetch meanwhile) for all of a query's.
  template <class F>
  VISOPS_ALWAYS_INLINE void compute_query(const T* values, T* out, const F& for_all) const {
    const int64_t rest = for_parts<Acc>(p_.channels, [&](auto parts, int64_t c) {
      Part<Acc> sum[parts];
      for (int n = 0; n < parts; ++n) sum[n] = repeated(static_cast<Acc>(0));
      for_all([&](const Samples<Acc>& samples, const Samples<Acc>& next) {
        add_samples(samples, next, values + c, sum);
      });
      store_sums(sum, out + c);
    });
    for (int64_t c = rest; c < p_.channels; c += kTail) {
      Acc sum[kTail] = {};
      const int64_t count = p_.channels - c < kTail ? p_.channels - c : kTail;
      for_all([&](const Samples<Acc>& samples, const Samples<Acc>&) {
        add_tail(samples, values + c, count, sum);
      });
      for (int64_t i = 0; i < count; ++i) store_element(out + c + i, sum[i]);
    }
  }

  static constexpr int64_t kTail = 4;

  template <int N>
  VISOPS_ALWAYS_INLINE void add_samples(const Samples<Acc>& s, const Samples<Acc>& next,
                                        const T* values, Part<Acc> (&sum)[N]) const {
    constexpr int kCount = kPartCount<Acc>, kStep = kTogether<T, N>;
    constexpr int64_t kBytes = N * kCount * static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < s.count; ++i) {
      const int64_t row_step = levels_.row_step[s.first + i];
      fetch_taps<is_discrete>(next, i, values, p_.position_stride, row_step, kBytes);
      if (s.taps[i] == 0) continue;
      const T* tap[4];
      find_taps(s, i, values, p_.position_stride, row_step, zeros_, tap);
      if constexpr (is_discrete) {
        const Part<Acc> weight = repeated(s.weight[0][i]);
        for (int n = 0; n < N; n += kStep) {
          Part<Acc> value[kStep];
          load_together(tap[0] + n * kCount, value);
          for (int m = 0; m < kStep; ++m) sum[n + m] = sum[n + m] + weight * value[m];
        }
      } else {
        const Part<Acc> w00 = repeated(s.weight[0][i]), w01 = repeated(s.weight[1][i]);
        const Part<Acc> w10 = repeated(s.weight[2][i]), w11 = repeated(s.weight[3][i]);
        VISOPS_UNROLL
        for (int n = 0; n < N; n += kStep) {
          Part<Acc> v00[kStep], v01[kStep], v10[kStep], v11[kStep];
          load_together(tap[0] + n * kCount, v00);
          load_together(tap[1] + n * kCount, v01);
          load_together(tap[2] + n * kCount, v10);
          load_together(tap[3] + n * kCount, v11);
          for (int m = 0; m < kStep; ++m) {
            const Part<Acc> top = w00 * v00[m] + w01 * v01[m];
            const Part<Acc> bottom = w10 * v10[m] + w11 * v11[m];
            sum[n + m] = sum[n + m] + (top + bottom);
          }
        }
      }
    }
  }

  template <int N>
  VISOPS_ALWAYS_INLINE void store_sums(const Part<Acc> (&sum)[N], T* out) const {
    constexpr int kStep = kTogether<T, N>;
    for (int n = 0; n < N; n += kStep) {
      Part<Acc> together[kStep];
      for (int m = 0; m < kStep; ++m) together[m] = sum[n + m];
      store_together(out + n * kPartCount<Acc>, together);
    }
  }

  // Fewer channels than a vector has.
  void add_tail(const Samples<Acc>& s, const T* values, int64_t count, Acc* sum) const {
    for (int64_t i = 0; i < s.count; ++i) {
      if (s.taps[i] == 0) continue;
      const T* tap[4];
      find_taps(s, i, values, p_.position_stride, levels_.row_step[s.first + i], zeros_, tap);
      for (int64_t c = 0; c < count; ++c) {
        if constexpr (is_discrete) {
          sum[c] += s.weight[0][i] * load_element(tap[0] + c);
        } else {
          const Acc top =
              s.weight[0][i] * load_element(tap[0] + c) + s.weight[1][i] * load_element(tap[1] + c);
          const Acc bottom =
              s.weight[2][i] * load_element(tap[2] + c) + s.weight[3][i] * load_element(tap[3] + c);
          sum[c] += top + bottom;
        }
      }
    }
  }

  const AttentionParams& p_;
  SampleLevels levels_;
  const T* zeros_;  // as many as a query's channels
};

void attention_kernel(const AttentionParams& p, Workspace& workspace) {
  const SampleLevels levels = sample_levels(p, workspace);
  const int64_t bytes = p.channels * element_size(p.dtype);
  void* zeros = workspace.allocate(bytes);
  memset(zeros, 0, static_cast<size_t>(bytes));
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    const Attention<T, is_discrete> attention(p, levels, static_cast<const T*>(zeros));
    parallel_for(workspace, p.batch * p.heads * p.queries, query_grain(p),
                 [&](int64_t begin, int64_t end) { attention.compute(begin, end); });
  });
}

const bool registered = attention_stub.set(kIsaSlot, attention_kernel);

}  // namespace
}  // namespace visops
