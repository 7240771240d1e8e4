// NOTE [ Gradients of samples on the CPU ]
// For each sample and tap, the products of gradient and value are added to 32 lanes and these are
// halved into one (NOTE [ Lane sums ]). Lanes are adjacent channels, so they fill vectors; the last
// halvings are done for the four taps at once, across a transposed block. Then sample_gradient()
// combines the four sums, in vectors of samples. Work is split by image, head and query, as in the
// forward; every sample's gradient is its own.
//
// Rounding: NOTE [ Gradients of deformable attention ] (core/deformable/attention.h), without
// contraction. Lanes begin with their first product rather than with 0, which only negative zeros
// could tell, and those are gone after the NOTE's plus 0. Assumes what the front checks.
#include "cpu/deformable/attention_samples.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

// The lanes of one tap's sum; `kLaneParts` vectors.
template <class Acc>
constexpr int kLaneParts = static_cast<int>(kSumLanes) / kPartCount<Acc>;

template <class Acc>
VISOPS_ALWAYS_INLINE Part<Acc> halve_to_one(Part<Acc> (&lanes)[kLaneParts<Acc>]) {
  VISOPS_UNROLL
  for (int half = kLaneParts<Acc> / 2; half > 0; half /= 2) {
    for (int n = 0; n < half; ++n) lanes[n] = lanes[n] + lanes[n + half];
  }
  return lanes[0];
}

// The sums of Floats' lanes for four taps.
VISOPS_ALWAYS_INLINE void sum_taps(const Floats (&tap)[4], float* sum) {
  constexpr int kQuads = Floats::kWidth / 4;
  Quad column[4];
  for (int k = 0; k < 4; ++k) {
    alignas(64) float room[Floats::kWidth];
    tap[k].store(room);
    Quad part[kQuads];
    for (int i = 0; i < kQuads; ++i) part[i] = Quad::load(room + 4 * i);
    VISOPS_UNROLL
    for (int half = kQuads / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) part[i] = part[i] + part[i + half];
    }
    column[k] = part[0];
  }
  transpose(column);  // now a Quad is one lane of each tap
  ((column[0] + column[2]) + (column[1] + column[3])).store(sum);
}

VISOPS_ALWAYS_INLINE void sum_taps(const Vector<double> (&tap)[4], double* sum) {
  constexpr int kCount = kPartCount<double>;
  for (int k = 0; k < 4; ++k) {
    double room[kCount];
    store_part(room, tap[k]);
    for (int half = kCount / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) room[l] += room[l + half];
    }
    sum[k] = room[0];
  }
}

template <class T, bool is_discrete>
class SampleGradients {
 public:
  using Acc = typename Accumulate<T>::type;

  SampleGradients(const AttentionParams& p, const SampleLevels& levels, const T* zeros)
      : p_(p), levels_(levels), zeros_(zeros) {}

  void compute(int64_t begin, int64_t end) const {
    for_queries(p_, begin, end, [&](int64_t image, int64_t head, int64_t first, int64_t last) {
      const T* values = static_cast<const T*>(p_.value) + head_offset(p_, image, head);
      for (int64_t q = first; q < last; ++q) {
        const int64_t row = (image * p_.queries + q) * p_.heads + head;
        const T* grad = static_cast<const T*>(p_.grad) + row * p_.channels;
        for_samples<is_discrete, Acc>(
            p_, levels_, row, 0, p_.samples,
            [&](const Samples<Acc>& samples) { differentiate(samples, values, grad, row); });
      }
    });
  }

 private:
  void differentiate(const Samples<Acc>& s, const T* values, const T* grad, int64_t row) const {
    Acc sums[kSamplesAtOnce][4];
    for (int64_t i = 0; i < s.count; ++i) {
      if (s.taps[i] == 0) {
        for (int k = 0; k < 4; ++k) sums[i][k] = static_cast<Acc>(0);
        continue;
      }
      const T* tap[4];
      find_taps(s, i, values, p_.position_stride, levels_.row_step[s.first + i], zeros_, tap);
      if constexpr (is_discrete) tap[1] = tap[2] = tap[3] = zeros_;
      Part<Acc> products[4];
      for (int k = 0; k < 4; k += 2) add_products(tap + k, grad, products + k);
      sum_taps(products, sums[i]);
    }
    write_gradients(s, sums, row);
  }

  // What two taps' products with the gradient leave in one vector of lanes each.
  VISOPS_ALWAYS_INLINE void add_products(const T* const* tap, const T* grad,
                                         Part<Acc>* products) const {
    constexpr int kParts = kLaneParts<Acc>, kCount = kPartCount<Acc>;
    Part<Acc> first[kParts], second[kParts];
    if (p_.channels < kSumLanes) {
      for (int n = 0; n < kParts; ++n) first[n] = second[n] = repeated(static_cast<Acc>(0));
      add_rest(tap[0], grad, 0, first);
      add_rest(tap[1], grad, 0, second);
    } else {
      VISOPS_UNROLL
      for (int n = 0; n < kParts; ++n) {
        const Part<Acc> g = load_part(grad + n * kCount);
        first[n] = g * load_part(tap[0] + n * kCount);
        second[n] = g * load_part(tap[1] + n * kCount);
      }
      int64_t c = kSumLanes;
      for (; c + kSumLanes <= p_.channels; c += kSumLanes) {
        VISOPS_UNROLL
        for (int n = 0; n < kParts; ++n) {
          const Part<Acc> g = load_part(grad + c + n * kCount);
          first[n] = first[n] + g * load_part(tap[0] + c + n * kCount);
          second[n] = second[n] + g * load_part(tap[1] + c + n * kCount);
        }
      }
      if (c < p_.channels) {
        add_rest(tap[0], grad, c, first);
        add_rest(tap[1], grad, c, second);
      }
    }
    products[0] = halve_to_one<Acc>(first);
    products[1] = halve_to_one<Acc>(second);
  }

  // Channels [c, channels), fewer than kSumLanes.
  void add_rest(const T* values, const T* grad, int64_t c,
                Part<Acc> (&lanes)[kLaneParts<Acc>]) const {
    constexpr int kCount = kPartCount<Acc>;
    int n = 0;
    for (; c + kCount <= p_.channels; c += kCount, ++n) {
      lanes[n] = lanes[n] + load_part(grad + c) * load_part(values + c);
    }
    if (c == p_.channels) return;
    Acc room[kCount];
    store_part(room, lanes[n]);
    for (int l = 0; c < p_.channels; ++c, ++l) {
      room[l] += load_element(grad + c) * load_element(values + c);
    }
    lanes[n] = load_part(room);
  }

  void write_gradients(const Samples<Acc>& s, const Acc (&sums)[kSamplesAtOnce][4],
                       int64_t row) const {
    Acc of_weights[kSamplesAtOnce], of_locations[2 * kSamplesAtOnce];
    const int32_t *heights = levels_.height + s.first, *widths = levels_.width + s.first;
    for (int64_t i = 0; i < s.count; ++i) {
      const SamplePlace<Acc> place = {s.y[i], s.x[i], s.fy[i], s.fx[i], s.taps[i]};
      const SampleGradient<Acc> gradient =
          sample_gradient<is_discrete>(place, s.attention[i], heights[i], widths[i], sums[i]);
      of_weights[i] = gradient.attention;
      of_locations[2 * i] = gradient.u;
      of_locations[2 * i + 1] = gradient.v;
    }
    const int64_t at = row * p_.samples + s.first;
    write_numbers(of_weights, s.count, p_.grad_weights, p_.weights_dtype, at);
    write_numbers(of_locations, 2 * s.count, p_.grad_locations, p_.locations_dtype, 2 * at);
  }

  const AttentionParams& p_;
  SampleLevels levels_;
  const T* zeros_;  // as many as a head has channels
};

void backward_samples_kernel(const AttentionParams& p, Workspace& workspace) {
  const SampleLevels levels = sample_levels(p, workspace);
  const int64_t bytes = p.channels * element_size(p.dtype);
  void* zeros = workspace.allocate(bytes);
  if (bytes > 0) memset(zeros, 0, static_cast<size_t>(bytes));
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    const SampleGradients<T, is_discrete> gradients(p, levels, static_cast<const T*>(zeros));
    parallel_for(workspace, p.batch * p.heads * p.queries, query_grain(p),
                 [&](int64_t begin, int64_t end) { gradients.compute(begin, end); });
  });
}

const bool registered = attention_backward_samples_stub.set(kIsaSlot, backward_samples_kernel);

}  // namespace
}  // namespace visops
