// NOTE [ Focal loss on the CPU ]
// One pass over the logits, in plain loops that compilers turn into vectors. A row with a class is
// computed as background, and its one target of 1 once more. A task is a part of the rows.
//
// Rounding: NOTE [ Focal loss ] (core/losses/focal.h), without contraction.
#include "core/losses/focal.h"

#include "cpu/items.h"

namespace visops {
namespace {

template <class T, bool is_backward, bool is_square>
class Losses {
  using Acc = typename Accumulate<T>::type;

 public:
  explicit Losses(const FocalParams& p)
      : numbers_(focal_numbers<Acc>(p)),
        logits_(static_cast<const T*>(p.logits)),
        targets_(static_cast<const T*>(p.targets)),
        grad_(static_cast<const T*>(p.grad)),
        output_(static_cast<T*>(p.output)),
        labels_(p.labels),
        classes_(p.classes) {}

  void rows(int64_t begin, int64_t end) const {
    if (labels_ == nullptr) return with_targets(begin, end);
    background(begin * classes_, end * classes_);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t label = labels_[i];
      if (label >= 0 && label < classes_) store(i * classes_ + label, static_cast<Acc>(1));
    }
  }

 private:
  VISOPS_ALWAYS_INLINE void store(int64_t i, Acc target) const {
    Acc value =
        focal_value<is_backward, is_square, Acc>(load_element(logits_ + i), target, numbers_);
    if (is_backward) value *= load_element(grad_ + i);
    store_element(output_ + i, value);
  }
  void with_targets(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) store(i, load_element(targets_ + i));
  }
  void background(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) store(i, static_cast<Acc>(0));
  }

  FocalNumbers<Acc> numbers_;
  const T *logits_, *targets_, *grad_;
  T* output_;
  const int64_t* labels_;
  int64_t classes_;
};

template <bool is_backward>
void focal_range(const FocalParams& p, int64_t begin, int64_t end) {
  with_focal_form(p, [&](auto* type, auto is_square) {
    using T = std::remove_pointer_t<decltype(type)>;
    Losses<T, is_backward, is_square.value>(p).rows(begin, end);
  });
}

template <bool is_backward>
void focal_cpu(const FocalParams& p, Workspace& workspace) {
  for_items(workspace, p, p.rows, 8 * p.classes, focal_range<is_backward>);
}

const bool registered = focal_loss_stub.set(kIsaSlot, focal_cpu<false>) &&
                        focal_loss_backward_stub.set(kIsaSlot, focal_cpu<true>);

}  // namespace
}  // namespace visops
