#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/chain/run/pass.h"
#include "python/array.h"
#include "python/bindings.h"
#include "python/chain/plan.h"
#include "python/strided_data.h"
#include "torch/parallel.h"

namespace visops {
namespace {

// Runs one operation on an image [C, H, W], contiguous, uint8 or float32.
void run_operation(int kind, double amount, const std::vector<double>& more, py::handle address,
                   const std::string& dtype, int64_t channels, int64_t height, int64_t width) {
  PixelOperation operation = {static_cast<PixelKind>(kind), amount};
  std::copy_n(more.begin(), std::min<size_t>(more.size(), kMoreNumbers), operation.more);
  const PixelImage image = {read_address(address), dtype_named(dtype), channels, height, width};
  run_unlocked(image.size(), [&] { run_pixel_list({operation}, image, {}, torch_threads()); });
}

// The first operations of all frames of `samples` samples, then all second ones, and so on: for
// each turn arrays of kinds [N], amounts [N] and numbers [N, kMoreNumbers], which are the matrix of
// an affine one and for others what `more` holds. Samples of fewer operations have identities
// behind them.
py::list turns_of(const PlanObject& self, int64_t begin, int64_t samples, int64_t frames) {
  std::vector<std::vector<PixelOperation>> all;
  size_t count = 0;
  for (int64_t i = 0; i < samples * frames && !self.plan.operations.empty(); ++i) {
    all.push_back(operations_of(self.plan, static_cast<size_t>(begin + i / frames), i % frames));
    count = std::max(count, all.back().size());
  }
  const auto batch = static_cast<py::ssize_t>(all.size());
  py::list turns;
  for (size_t turn = 0; turn < count; ++turn) {
    py::array_t<int64_t> kinds(batch);
    py::array_t<double> amounts(batch), numbers({batch, py::ssize_t{kMoreNumbers}});
    std::fill_n(numbers.mutable_data(), numbers.size(), 0.0);
    for (py::ssize_t i = 0; i < batch; ++i) {
      const auto& operations = all[static_cast<size_t>(i)];
      const PixelOperation own =
          turn < operations.size() ? operations[turn] : PixelOperation{PixelKind::kIdentity};
      kinds.mutable_at(i) = static_cast<int64_t>(own.kind);
      amounts.mutable_at(i) = own.amount;
      const bool moves = own.kind == PixelKind::kAffine;
      std::copy_n(moves ? own.matrix : own.more, moves ? 6 : kMoreNumbers,
                  numbers.mutable_data(i, 0));
    }
    turns.append(py::make_tuple(kinds, amounts, numbers));
  }
  return turns;
}

}  // namespace

void bind_pixels(py::module_& m) {
  m.def("run_operation", &run_operation);
  m.def("pixel_turns", &turns_of);
}

}  // namespace visops
