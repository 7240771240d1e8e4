// NOTE [ Gradients of samples on the CPU ]
// For each sample and tap, the products of gradient and value are added to 32 lanes and these are
// halved into one (NOTE [ Lane sums ]), then sample_gradient() combines the four sums. Lanes are
// adjacent channels, so they fill vectors. Work is split by image, head and query, as in the
// forward; every sample's gradient is its own.
//
// Rounding: NOTE [ Gradients of deformable attention ] (core/deformable/attention.h), without
// contraction. Assumes what the front checks.
#include "cpu/deformable/attention_samples.h"
#include "cpu/deformable/parts.h"

namespace visops {
namespace {

// The lanes of one tap's sum; `kLaneParts` vectors.
template <class Acc>
constexpr int kLaneParts = static_cast<int>(kSumLanes) / kPartCount<Acc>;

// Halves the lanes of vectors into those of one, then into a number.
template <class Acc>
VISOPS_ALWAYS_INLINE Acc sum_of_lanes(Part<Acc> (&lanes)[kLaneParts<Acc>]) {
  VISOPS_UNROLL
  for (int half = kLaneParts<Acc> / 2; half > 0; half /= 2) {
    for (int n = 0; n < half; ++n) lanes[n] = lanes[n] + lanes[n + half];
  }
  Acc room[kPartCount<Acc>];
  store_part(room, lanes[0]);
  VISOPS_UNROLL
  for (int half = kPartCount<Acc> / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) room[l] += room[l + half];
  }
  return room[0];
}

template <class T, bool is_discrete>
class SampleGradients {
 public:
  using Acc = typename Accumulate<T>::type;

  // `zeros` has as many elements as a head has channels, rounded up to kSumLanes.
  SampleGradients(const AttentionParams& p, const SampleLevels& levels, const T* zeros)
      : p_(p), levels_(levels), zeros_(zeros) {}

  void compute(int64_t begin, int64_t end) const {
    for_queries(p_, begin, end, [&](int64_t image, int64_t head, int64_t first, int64_t last) {
      const T* values =
          static_cast<const T*>(p_.value) + image * p_.batch_stride + head * p_.head_stride;
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
    for (int64_t i = 0; i < s.count; ++i) {
      Acc sum[4] = {};
      if (s.taps[i] != 0) {
        const T* tap[4];
        find_taps(s, i, values, p_.position_stride, levels_.row_step[s.first + i], zeros_, tap);
        constexpr int kTaps = is_discrete ? 1 : 4;
        for (int k = 0; k < kTaps; ++k) sum[k] = product_sum(tap[k], grad);
      }
      const int64_t at = s.first + i;
      const SamplePlace<Acc> place = {s.y[i], s.x[i], s.fy[i], s.fx[i], s.taps[i]};
      const SampleGradient<Acc> gradient = sample_gradient<is_discrete>(
          place, s.attention[i], levels_.height[at], levels_.width[at], sum);
      const int64_t out = row * p_.samples + at;
      write_number(p_.grad_weights, p_.weights_dtype, out, gradient.attention);
      write_number(p_.grad_locations, p_.locations_dtype, 2 * out, gradient.u);
      write_number(p_.grad_locations, p_.locations_dtype, 2 * out + 1, gradient.v);
    }
  }

  VISOPS_ALWAYS_INLINE Acc product_sum(const T* values, const T* grad) const {
    constexpr int kParts = kLaneParts<Acc>, kCount = kPartCount<Acc>;
    Part<Acc> lanes[kParts];
    VISOPS_UNROLL
    for (int n = 0; n < kParts; ++n) lanes[n] = repeated(static_cast<Acc>(0));
    int64_t c = 0;
    for (; c + kSumLanes <= p_.channels; c += kSumLanes) {
      VISOPS_UNROLL
      for (int n = 0; n < kParts; ++n) {
        lanes[n] = lanes[n] + load_part(grad + c + n * kCount) * load_part(values + c + n * kCount);
      }
    }
    if (c < p_.channels) add_rest(values, grad, c, lanes);
    return sum_of_lanes<Acc>(lanes);
  }

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

  const AttentionParams& p_;
  SampleLevels levels_;
  const T* zeros_;
};

void backward_samples_kernel(const AttentionParams& p, Workspace& workspace) {
  const SampleLevels levels = sample_levels(p, workspace);
  const int64_t bytes = p.channels * element_size(p.dtype);
  void* zeros = workspace.allocate(bytes);
  memset(zeros, 0, static_cast<size_t>(bytes));
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
