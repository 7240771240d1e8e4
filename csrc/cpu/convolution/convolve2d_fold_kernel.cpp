// NOTE [ Folding on the CPU ]
// Work is cut by the result's rows. Most columns are repeated only by themselves and are added as
// runs. For the others, each column that repeats them is looked up. Order of sums: NOTE [ Folding
// an extension ].
#include <type_traits>

#include "core/convolution/convolve2d.h"
#include "core/numbers/arithmetic.h"
#include "cpu/items.h"

namespace visops {
namespace {

template <class T>
class FoldedRow {
 public:
  FoldedRow(const ConvolveFoldParams& p, int64_t row)
      : p_(p), rows_(repeats_of(p.boundary, row % p.input_height, p.input_height, p.start_y)) {
    grad_ = static_cast<const T*>(p.grad) + row / p.input_height * p.height * p.width;
    result_ = static_cast<T*>(p.result) + row * p.input_width;
  }

  void run() {
    // Columns [first, last) are repeated only by themselves.
    const int64_t n = p_.input_width, start = p_.start_x, end = start + p_.width;
    const bool wraps = p_.boundary == Padding::kCircular;
    const int64_t first = most(0, most(start, wraps ? end - n : -start));
    const int64_t last = most(first, least(n, least(end, wraps ? start + n : 2 * n - end)));
    fold(0, least(first, n));
    for (int64_t x = first; x < last; x += kColumns) add_rows(x, least(kColumns, last - x));
    fold(last, n);
  }

 private:
  using Element = ConvolveElement<T>;
  using Sum = typename Element::Sum;
  static constexpr int64_t kColumns = 512;

  void add_rows(int64_t x, int64_t count) {
    Sum sums[kColumns];
    for (int64_t j = 0; j < count; ++j) sums[j] = {};
    int turn = 0;
    for (int64_t u = rows_.first; u < p_.height; u += rows_.steps[turn], turn = 1 - turn) {
      const T* row = grad_ + u * p_.width + x - p_.start_x;
      for (int64_t j = 0; j < count; ++j) add_to(sums[j], Element::load(row + j));
    }
    for (int64_t j = 0; j < count; ++j) Element::store(result_ + x + j, sums[j]);
  }

  void fold(int64_t x, int64_t end) {
    for (; x < end; ++x) {
      const Repeats columns = repeats_of(p_.boundary, x, p_.input_width, p_.start_x);
      Sum sum = {};
      int turn = 0;
      for (int64_t v = columns.first; v < p_.width; v += columns.steps[turn], turn = 1 - turn) {
        add_to(sum, column_sum(v));
      }
      Element::store(result_ + x, sum);
    }
  }

  Sum column_sum(int64_t v) const {
    Sum sum = {};
    int turn = 0;
    for (int64_t u = rows_.first; u < p_.height; u += rows_.steps[turn], turn = 1 - turn) {
      add_to(sum, Element::load(grad_ + u * p_.width + v));
    }
    return sum;
  }

  const ConvolveFoldParams& p_;
  Repeats rows_;
  const T* grad_;
  T* result_;
};

void convolve2d_fold_range(const ConvolveFoldParams& p, int64_t begin, int64_t end) {
  with_convolve_type(p.kind, [&](auto* type) {
    for (int64_t row = begin; row < end; ++row) {
      FoldedRow<std::remove_pointer_t<decltype(type)>>(p, row).run();
    }
  });
}

void convolve2d_fold_kernel(const ConvolveFoldParams& p, Workspace& workspace) {
  for_items(workspace, p, p.count * p.input_height, 2 * p.input_width, convolve2d_fold_range);
}

const bool registered = convolve2d_fold_stub.set(kIsaSlot, convolve2d_fold_kernel);

}  // namespace
}  // namespace visops
