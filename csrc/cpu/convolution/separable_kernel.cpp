// NOTE [ Separable filters on the CPU ]
// A task is a channel. Its rows are filtered along themselves into scratch, as float32, then summed
// down the columns. Rows are extended first, so that loops need not look where the rim is.
// NOTE [ Separable filters ] (core/pixels/filters/filter.h) says the rest.
#include "core/pixels/filters/filter.h"

#include <cstring>
#include <type_traits>

namespace visops {
namespace {

// sums[x] = sum over taps of weights[k] line_of(k)[x].
template <class LineOf>
void add_lines(const LineOf& line_of, const float* weights, int64_t taps, bool pairs, int64_t width,
               float* VISOPS_RESTRICT sums) {
  const int64_t middle = taps / 2;
  if (pairs) {
    const float* const own = line_of(middle);
    for (int64_t x = 0; x < width; ++x) sums[x] = weights[middle] * own[x];
    for (int64_t k = 1; k <= middle; ++k) {
      const float weight = weights[middle + k];
      const float *const before = line_of(middle - k), *const after = line_of(middle + k);
      for (int64_t x = 0; x < width; ++x) sums[x] += weight * (before[x] + after[x]);
    }
    return;
  }
  for (int64_t x = 0; x < width; ++x) sums[x] = 0.0f;
  for (int64_t k = 0; k < taps; ++k) {
    const float weight = weights[k];
    const float* const line = line_of(k);
    for (int64_t x = 0; x < width; ++x) sums[x] += weight * line[x];
  }
}

template <class T>
void filter_channel(const SeparableParams& p, const T* from, const float* row, const float* column,
                    float* scratch, T* to) {
  const auto columns = static_cast<int32_t>(p.width), lines = static_cast<int32_t>(p.height);
  const int64_t width = p.width, left = p.row_taps / 2, above = p.column_taps / 2;
  float* const extended = scratch + p.height * width;
  float* const sums = extended + width + p.row_taps - 1;
  for (int64_t y = 0; y < p.height; ++y) {
    const T* const line = from + y * width;
    for (int64_t x = 0; x < width; ++x) extended[left + x] = load_element(line + x);
    for (int64_t k = 0; k < left; ++k)
      extended[k] = load_element(line + mirrored(static_cast<int32_t>(k - left), columns));
    for (int64_t k = left + width; k < width + p.row_taps - 1; ++k) {
      extended[k] = load_element(line + mirrored(static_cast<int32_t>(k - left), columns));
    }
    add_lines([=](int64_t k) { return extended + k; }, row, p.row_taps, p.pairs, width,
              scratch + y * width);
  }
  for (int64_t y = 0; y < p.height; ++y) {
    const auto line_of = [&](int64_t k) {
      return scratch + mirrored(static_cast<int32_t>(y + k - above), lines) * width;
    };
    add_lines(line_of, column, p.column_taps, p.pairs, width, sums);
    for (int64_t x = 0; x < width; ++x) store_element(to + y * width + x, sums[x]);
  }
}

void separable_cpu(const SeparableParams& p, Workspace& workspace) {
  const int64_t channels = p.batch * p.channels, pixels = p.pixels();
  const int64_t each = pixels + 2 * p.width + p.row_taps;
  const int64_t tasks = channels < workspace.threads() ? channels : workspace.threads();
  auto* const scratch = allocate<float>(workspace, tasks * each);
  const int64_t of_task = (channels + tasks - 1) / tasks;
  parallel_for(workspace, tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * of_task; i < end * of_task && i < channels; ++i) {
      const int64_t set = p.sets == 1 ? 0 : i / p.channels;
      with_filter_type(p.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const T* const from = static_cast<const T*>(p.images) + i * pixels;
        T* const to = static_cast<T*>(p.output) + i * pixels;
        if (copies_images(p, set)) {
          memcpy(to, from, static_cast<size_t>(pixels) * sizeof(T));
          return;
        }
        filter_channel(p, from, p.rows + set * p.row_taps, p.columns + set * p.column_taps,
                       scratch + i / of_task * each, to);
      });
    }
  });
}

const bool registered = separable_stub.set(kIsaSlot, separable_cpu);

}  // namespace
}  // namespace visops
