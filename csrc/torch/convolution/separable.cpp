// The torch front of separable filters: tensors -> SeparableParams.
#include "core/pixels/filters/filter.h"

#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

constexpr const char* kOp = "filter_separable";

using Numbers = std::vector<double>;

// `taps` weights for each image, or for all of them.
std::vector<float> weights_of(const char* name, const Numbers& given, int64_t sets) {
  const auto count = static_cast<int64_t>(given.size());
  require(sets > 0 && count % sets == 0, kOp, name, " has ", count, " numbers, must have as many ",
          "for each of ", sets, " images");
  std::vector<float> weights(given.size());
  for (size_t i = 0; i < given.size(); ++i) weights[i] = static_cast<float>(given[i]);
  return weights;
}

Tensor filter_separable(const Tensor& images, const Numbers& rows, const Numbers& columns,
                        bool shared, bool pairs) {
  SeparableParams p = {};
  read_images(kOp, images, p);
  p.sets = shared || p.batch == 0 ? 1 : p.batch;
  const std::vector<float> row = weights_of("rows", rows, p.sets);
  const std::vector<float> column = weights_of("columns", columns, p.sets);
  p.rows = row.data();
  p.columns = column.data();
  p.row_taps = static_cast<int64_t>(row.size()) / p.sets;
  p.column_taps = static_cast<int64_t>(column.size()) / p.sets;
  p.pairs = pairs;
  check_separable(kOp, p);
  return run_on_images(separable_stub, kOp, images, p);
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("filter_separable", VISOPS_BOX(&visops::filter_separable)); }
