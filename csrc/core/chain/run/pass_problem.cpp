#include "core/chain/run/pass_problem.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace visops {
namespace {

// Those of a batch have one form.
int64_t rows_of(const std::vector<GeometryState>& at) {
  const bool any =
      std::any_of(at.begin(), at.end(), [](const GeometryState& own) { return own.projective; });
  return any ? 3 : 2;
}

// write(state, rows) for each sample; matrices of two rows get a third where others have one.
template <class Write>
std::vector<double> matrices_of(const std::vector<GeometryState>& at, int64_t rows,
                                const Write& write) {
  std::vector<double> matrices(at.size() * static_cast<size_t>(rows * 3));
  double* next = matrices.data();
  for (const GeometryState& own : at) {
    if (rows == 3) next[8] = 1.0;
    write(own, next);
    next += rows * 3;
  }
  return matrices;
}

}  // namespace

PassProblem::PassProblem(const std::vector<GeometryState>& at, Interpolation mode,
                         const Sampling& sampling) {
  const int64_t rows = rows_of(at);
  const bool nearest = mode == Interpolation::kNearest;
  const auto write = [&](const GeometryState& own, double* to) { own.write_rows(nearest, to); };
  set_matrices(matrices_of(at, rows, write), rows);
  set_windows(at, sampling);
  params.mode = mode;
  params.padding = sampling.padding;
  params.antialias = sampling.antialias && !nearest;
  params.output_height = static_cast<int64_t>(at[0].canvas.height);
  params.output_width = static_cast<int64_t>(at[0].canvas.width);
}

PassProblem::PassProblem(std::vector<double> matrices, Interpolation mode, const Canvas& size) {
  set_matrices(std::move(matrices), 2);
  params.mode = mode;
  params.padding = Padding::kConstant;
  params.output_height = static_cast<int64_t>(size.height);
  params.output_width = static_cast<int64_t>(size.width);
}

PassProblem PassProblem::of_mean(const std::vector<GeometryState>& at, const Sampling& sampling) {
  PassProblem problem;
  const int64_t rows = rows_of(at);
  problem.set_matrices(matrices_of(at, rows, write_mean_grid), rows);
  problem.set_windows(at, sampling);
  AugmentParams& p = problem.params;
  p.mode = Interpolation::kNearest;
  p.padding = sampling.padding;
  p.output_dtype = DType::kUInt8;
  p.output_height = p.output_width = kMeanGrid;
  return problem;
}

void PassProblem::set_matrices(std::vector<double> matrices, int64_t rows) {
  matrices_ = std::move(matrices);
  params.batch = static_cast<int64_t>(matrices_.size()) / (rows * 3);
  params.matrix = {matrices_.data(), DType::kFloat64, false, rows * 3, 3, 1};
  params.matrix_rows = static_cast<int>(rows);
  params.half_pixel = true;
}

void PassProblem::set_windows(const std::vector<GeometryState>& at, const Sampling& sampling) {
  if (!sampling.window && !at[0].has_window) return;
  for (const GeometryState& own : at) {
    const double whole[4] = {0.0, 0.0, own.source.width, own.source.height};
    const double* const window = own.has_window ? own.window : whole;
    windows_.insert(windows_.end(), window, window + 4);
  }
  params.window = windows_.data();
}

void PassProblem::erase(const std::vector<std::vector<double>>& rectangles) {
  if (rectangles.empty()) return;
  for (int64_t i = 0; i < params.batch; ++i) {
    for (const std::vector<double>& own : rectangles) {
      const auto first = own.begin() + 4 * i;
      std::transform(first, first + 4, std::back_inserter(erased_),
                     [](double edge) { return static_cast<int64_t>(edge); });
    }
  }
  params.erase = erased_.data();
  params.erase_count = static_cast<int64_t>(rectangles.size());
}

void PassProblem::set_color(const std::vector<double>& color, int64_t steps, bool shared) {
  params.color = color.empty() ? nullptr : color.data();
  params.color_steps = color.empty() ? 0 : steps;
  params.color_shared = !color.empty() && shared;
}

void PassProblem::set_images(const AugmentParams& source) {
  params.first = source.first;
  params.image_batch_stride = source.image_batch_stride;
  params.list = source.list;
  params.channels = source.channels;
  params.dtype = source.dtype;
}

void put_identity_first(std::vector<double>& color, int64_t batch, int64_t channels) {
  const ColorMatrix identity = identity_color(channels);
  const auto step = static_cast<size_t>(channels * (channels + 1));
  const size_t steps = color.size() / static_cast<size_t>(batch);
  std::vector<double> with_identity;
  for (size_t i = 0; i < color.size(); i += steps) {
    const auto own = color.begin() + static_cast<int64_t>(i);
    with_identity.insert(with_identity.end(), identity.begin(),
                         identity.begin() + static_cast<int64_t>(step));
    with_identity.insert(with_identity.end(), own, own + static_cast<int64_t>(steps));
  }
  color = std::move(with_identity);
}

}  // namespace visops
