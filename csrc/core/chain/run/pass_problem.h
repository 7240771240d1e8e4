// A pass over images as a problem of augment.
#pragma once

#include <vector>

#include "core/chain/color_program.h"
#include "core/chain/plan.h"
#include "core/warp/augment_front.h"

namespace visops {

// How a pass samples its images.
struct Sampling {
  std::vector<Interpolation> modes;  // a plan says which one a sample takes; else the first
  Padding padding;
  std::vector<double> fill;
  bool antialias;
  bool saturates;  // what integers are interpolated to, before floats follow
  bool window;     // the whole source, which makes the rim one output pixel wide

  // Whether images of this dtype have to be clamped behind an interpolation.
  bool clamps(Interpolation mode, DType dtype) const {
    const bool overshoots = mode == Interpolation::kBicubic || mode == Interpolation::kLanczos;
    return saturates && overshoots && dtype == DType::kUInt8;
  }
  Interpolation mode_of(const ChainPlan& plan, size_t sample) const {
    return plan.modes.empty() ? modes.at(0) : modes.at(plan.modes.at(sample));
  }
};

// A problem and its numbers. Who runs it adds the images, colours and the memory of the result.
class PassProblem {
 public:
  // Sampling the images of a plan onto their canvases, which have one size.
  PassProblem(const std::vector<GeometryState>& at, Interpolation mode, const Sampling& sampling);
  // Sampling images of this size by matrices [batch, 2, 3].
  PassProblem(std::vector<double> matrices, Interpolation mode, const Canvas& size);
  // Sampling them at the points of a grey mean's grid: NOTE [ Grey means ].
  static PassProblem of_mean(const std::vector<GeometryState>& at, const Sampling& sampling);

  PassProblem(PassProblem&&) = default;  // the numbers stay where they are
  PassProblem(const PassProblem&) = delete;

  void erase(const std::vector<std::vector<double>>& rectangles);
  // Colours [batch, steps, C, C + 1], or [steps, C, C + 1] for all.
  void set_color(const std::vector<double>& color, int64_t steps, bool shared);
  // The images, channels and dtype of another problem.
  void set_images(const AugmentParams& source);

  AugmentParams params = {};

 private:
  PassProblem() = default;
  void set_windows(const std::vector<GeometryState>& at, const Sampling& sampling);
  void set_matrices(std::vector<double> matrices, int64_t rows);

  std::vector<double> matrices_, windows_;  // [batch, rows, 3], [batch, 4]
  std::vector<int64_t> erased_;             // [batch, rectangles, 4]
};

// Puts a step that changes nothing, and so only clamps, before the steps of each sample.
void put_identity_first(std::vector<double>& color, int64_t batch, int64_t channels);

}  // namespace visops
