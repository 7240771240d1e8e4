// The gradient of pasted masks, on the CPU.
//
// NOTE [ Gradients of pasted masks on the CPU ]
// A task has whole masks. Each row of the image that reaches the mask is summed into a row of the
// mask's columns, which is then added to two rows of the gradient: the order of NOTE [ Gradients of
// pasted masks ] in core/masks/paste.h. Assumes what check_paste_masks() establishes.
#include "core/masks/paste.h"
#include "core/numbers/element.h"
#include "cpu/masks/partition.h"

namespace visops {
namespace {

constexpr auto kBilinear = Interpolation::kBilinear;

template <class Acc>
void add_at(const AxisTaps<kBilinear, Acc>& taps, Acc value, Acc* sums) {
  for (int i = 0; i < 2; ++i) {
    if (taps.index[i] >= 0) sums[taps.index[i]] = sums[taps.index[i]] + taps.weight[i] * value;
  }
}

template <class T, class Acc>
void one_mask(const PasteMasksParams& p, int64_t k, Acc* row_sums) {
  const PasteMap<Acc> map = paste_masks_map<Acc>(p, k);
  Acc* sums = static_cast<Acc*>(p.grad_masks) + k * p.mask_height * p.mask_width;
  for (int64_t i = 0; i < p.mask_height * p.mask_width; ++i) sums[i] = static_cast<Acc>(0);
  for (int64_t y = map.y.pixels.begin; y < map.y.pixels.end; ++y) {
    const auto rows = paste_taps(map.y, y);
    if (rows.outside()) continue;
    const T* grad = static_cast<const T*>(p.grad) + (k * p.height + y) * p.width;
    for (int64_t j = 0; j < p.mask_width; ++j) row_sums[j] = static_cast<Acc>(0);
    for (int64_t x = map.x.pixels.begin; x < map.x.pixels.end; ++x) {
      add_at<Acc>(paste_taps(map.x, x), load_element(grad + x), row_sums);
    }
    for (int i = 0; i < 2; ++i) {
      if (rows.index[i] < 0) continue;
      Acc* row = sums + rows.index[i] * p.mask_width;
      for (int64_t j = 0; j < p.mask_width; ++j) row[j] = row[j] + rows.weight[i] * row_sums[j];
    }
  }
}

template <class T>
void all_masks(const PasteMasksParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const int64_t tasks = mask_tasks(p.count, p.height, p.width, workspace);
  Acc* scratch = allocate<Acc>(workspace, tasks * p.mask_width);
  for_each_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) one_mask<T>(p, k, scratch + task * p.mask_width);
  });
}

void paste_masks_backward_kernel(const PasteMasksParams& p, Workspace& workspace) {
  with_floating_type(p.output_dtype, [&](auto* element) {
    all_masks<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = paste_masks_backward_stub.set(kIsaSlot, paste_masks_backward_kernel);

}  // namespace
}  // namespace visops
