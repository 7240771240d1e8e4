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
#include "cpu/deformable/taps.h"

namespace visops {
namespace {

template <class T, bool is_discrete>
class SampleGradients {
 public:
  using Acc = typename Accumulate<T>::type;

  SampleGradients(const AttentionParams& p, const SampleLevels& levels, const T* zeros)
      : p_(p), levels_(levels), zeros_(zeros) {}

  void compute(int64_t begin, int64_t end) const {
    for_queries(p_, begin, end, [&](int64_t image, int64_t head, int64_t first, int64_t last) {
      const T* values = static_cast<const T*>(p_.value) + head_offset(p_, image, head);
      for_samples_ahead<is_discrete, Acc>(
          p_, levels_, {image, head, first, last, 0, p_.samples}, [](Samples<Acc>*) {},
          [&](int64_t row, const Samples<Acc>& here, const Samples<Acc>& next) {
            differentiate(here, next, values, row);
          });
    });
  }

 private:
  void differentiate(const Samples<Acc>& s, const Samples<Acc>& next, const T* values,
                     int64_t row) const {
    const T* grad = static_cast<const T*>(p_.grad) + row * p_.channels;
    const int64_t bytes = p_.channels * static_cast<int64_t>(sizeof(T));
    Acc sums[kSamplesAtOnce][4];
    for (int64_t i = 0; i < s.count; ++i) {
      const int64_t row_step = levels_.row_step[s.first + i];
      fetch_taps<is_discrete>(next, i, values, p_.position_stride, row_step, bytes);
      if (s.taps[i] == 0 || p_.channels == 0) {  // without channels, values may be null
        for (int k = 0; k < 4; ++k) sums[i][k] = static_cast<Acc>(0);
        continue;
      }
      const T* tap[4];
      find_taps(s, i, values, p_.position_stride, row_step, zeros_, tap);
      if constexpr (is_discrete) tap[1] = tap[2] = tap[3] = zeros_;
      sum_products(s.taps[i], tap, grad, p_.channels, sums[i]);
    }
    write_gradients(s, sums, row);
  }

  void write_gradients(const Samples<Acc>& s, const Acc (&sums)[kSamplesAtOnce][4],
                       int64_t row) const {
    Acc of_weights[kSamplesAtOnce], of_locations[2 * kSamplesAtOnce];
    const int32_t *heights = levels_.height + s.first, *widths = levels_.width + s.first;
    for (int64_t i = 0; i < s.count; ++i) {
      const BilinearSample<Acc> bilinear = {s.y[i], s.x[i], s.fy[i], s.fx[i], s.taps[i]};
      const SampleGradient<Acc> gradient =
          sample_gradient<is_discrete>(bilinear, s.attention[i], heights[i], widths[i], sums[i]);
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
