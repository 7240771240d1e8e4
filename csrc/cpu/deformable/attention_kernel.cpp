// NOTE [ Deformable attention on the CPU ]
// A query's samples of a head are placed first, in vectors of samples; then each sample's taps are
// read in vectors of channels and added in registers, four vectors at a time. Samples whose four
// taps all lie in the map take no branch but one. Taps outside point at zeros. Work is split by
// image, head and query, in this order: neighbouring queries of a head read the same values.
//
// Rounding: NOTE [ Samples of deformable attention ] (core/deformable/attention.h), without
// contraction. Assumes what the front checks.
#include "cpu/deformable/attention_samples.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

template <class T, bool is_discrete>
class Attention {
 public:
  using Acc = typename Accumulate<T>::type;

  Attention(const AttentionParams& p, const SampleLevels& levels, const T* zeros)
      : p_(p), levels_(levels), zeros_(zeros) {}

  void compute(int64_t begin, int64_t end) const {
    for_queries(p_, begin, end, [&](int64_t image, int64_t head, int64_t first, int64_t last) {
      const T* values = static_cast<const T*>(p_.value) + head_offset(p_, image, head);
      for (int64_t q = first; q < last; ++q) {
        const int64_t row = (image * p_.queries + q) * p_.heads + head;
        compute_query(values, row, static_cast<T*>(p_.output) + row * p_.channels);
      }
    });
  }

 private:
  void compute_query(const T* values, int64_t row, T* out) const {
    Samples<Acc> placed;
    const bool is_placed = p_.samples <= kSamplesAtOnce;
    if (is_placed) place_samples<is_discrete>(p_, levels_, row, 0, p_.samples, &placed);
    // f(samples), for all of the query's. More than kSamplesAtOnce are placed for each call.
    const auto for_all = [&](const auto& f) {
      if (is_placed) return f(placed);
      for_samples<is_discrete, Acc>(p_, levels_, row, 0, p_.samples, f);
    };
    const int64_t rest = for_parts<Acc>(p_.channels, [&](auto parts, int64_t c) {
      Part<Acc> sum[parts];
      for (int n = 0; n < parts; ++n) sum[n] = repeated(static_cast<Acc>(0));
      for_all([&](const Samples<Acc>& samples) { add_samples(samples, values + c, sum); });
      for (int n = 0; n < parts; ++n) store_part(out + c + n * kPartCount<Acc>, sum[n]);
    });
    for (int64_t c = rest; c < p_.channels; c += kTail) {
      Acc sum[kTail] = {};
      const int64_t count = p_.channels - c < kTail ? p_.channels - c : kTail;
      for_all([&](const Samples<Acc>& samples) { add_tail(samples, values + c, count, sum); });
      for (int64_t i = 0; i < count; ++i) store_element(out + c + i, sum[i]);
    }
  }

  static constexpr int64_t kTail = 4;

  template <int N>
  VISOPS_ALWAYS_INLINE void add_samples(const Samples<Acc>& s, const T* values,
                                        Part<Acc> (&sum)[N]) const {
    constexpr int kCount = kPartCount<Acc>;
    for (int64_t i = 0; i < s.count; ++i) {
      if (s.taps[i] == 0) continue;
      const T* tap[4];
      find_taps(s, i, values, p_.position_stride, levels_.row_step[s.first + i], zeros_, tap);
      if constexpr (is_discrete) {
        const Part<Acc> weight = repeated(s.weight[0][i]);
        for (int n = 0; n < N; ++n) sum[n] = sum[n] + weight * load_part(tap[0] + n * kCount);
      } else {
        const Part<Acc> w00 = repeated(s.weight[0][i]), w01 = repeated(s.weight[1][i]);
        const Part<Acc> w10 = repeated(s.weight[2][i]), w11 = repeated(s.weight[3][i]);
        VISOPS_UNROLL
        for (int n = 0; n < N; ++n) {
          const int at = n * kCount;
          const Part<Acc> top = w00 * load_part(tap[0] + at) + w01 * load_part(tap[1] + at);
          const Part<Acc> bottom = w10 * load_part(tap[2] + at) + w11 * load_part(tap[3] + at);
          sum[n] = sum[n] + (top + bottom);
        }
      }
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
