// The passes of a chain on images of the CPU, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/chain/color_program.h"
#include "core/chain/plan.h"
#include "core/dispatch/threads.h"
#include "core/images/pixel.h"
#include "core/pixels/operations.h"
#include "core/warp/augment.h"

namespace visops {

// A pass over images as a problem of augment.

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

// One pass of a chain over images of the CPU, by its plan.

// One pass. All but the first take what the one before made, contiguous.
struct Stage {
  Sampling sampling;
  bool by_values;  // pixel operations, in place; else geometry and colours into another image
  std::vector<double> mean, std, erase_value;  // as in visops.augment
  DType dtype;                                 // that it makes
  int64_t channels;  // of its result: those of its image, or another number of equal ones
};

// Runs a pass on one image [C, H, W].
void run_pass(const Stage& stage, const ChainPlan& plan, const AugmentImage& image, DType dtype,
              const StridedData& to, const Threads& threads);

// Colour matrices [batch, 1, C, C + 1] of a plan that is not exact, grey means included. `images`
// are those of the plan's batch.
std::vector<double> colors_with_means(const ChainPlan& plan, const Sampling& sampling,
                                      const AugmentParams& images, const Threads& threads);

// How the operations that move pixels read them.
struct PixelSampling {
  Interpolation mode;
  std::vector<double> fill;
};

// Runs a sample's operations on its image, contiguous, of uint8 or float32, in place.
void run_pixel_list(const std::vector<PixelOperation>& operations, const PixelImage& image,
                    const PixelSampling& sampling, const Threads& threads);

// Bytes that are not initialised, and kept for the next image: new pages cost as much as decoding a
// small photo.
class Buffer {
 public:
  uint8_t* of_size(size_t size) {
    if (size > capacity_) {
      bytes_.reset(new uint8_t[size]);
      capacity_ = size;
    }
    return bytes_.get();
  }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t capacity_ = 0;
};

// Runs passes on an image [C, H, W], which stays as it is; `plans` holds one for each. `to` must be
// contiguous if the last pass is by values.
void run_passes(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans,
                const AugmentImage& image, DType dtype, const StridedData& to,
                const Threads& threads);

// The same for the images of a batch, or `frames` for each of its samples.
void run_each_image(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans,
                    const std::vector<AugmentImage>& images, DType dtype,
                    const std::vector<StridedData>& to, int64_t frames, const Threads& threads);

}  // namespace visops
