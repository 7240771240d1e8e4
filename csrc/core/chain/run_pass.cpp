#include "core/chain/run_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/chain/color_program.h"
#include "core/pixels/colors/grey_means.h"
#include "core/warp/augment_run.h"
#include "core/warp/augment_segment.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;
using Means = std::vector<Numbers>;

// Windows [batch, 4] of samples, if there are any.
Numbers windows_of(const std::vector<GeometryState>& samples, const Sampling& sampling) {
  Numbers windows;
  if (!sampling.window && !samples[0].has_window) return windows;
  for (const GeometryState& at : samples) {
    const double whole[4] = {0.0, 0.0, at.source.width, at.source.height};
    const double* const window = at.has_window ? at.window : whole;
    windows.insert(windows.end(), window, window + 4);
  }
  return windows;
}

// How one image is sampled onto its canvas. `matrix`, of 9 numbers, is the caller's.
void set_sampling(const GeometryState& at, Interpolation mode, const Sampling& sampling,
                  double* matrix, AugmentParams& p) {
  at.write_rows(mode == Interpolation::kNearest, matrix);
  p.matrix = {matrix, DType::kFloat64, false, at.rows() * 3, 3, 1};
  p.matrix_rows = at.rows();
  p.mode = mode;
  p.padding = sampling.padding;
  p.antialias = sampling.antialias && mode != Interpolation::kNearest;
  p.half_pixel = true;
  p.output_height = static_cast<int64_t>(at.canvas.height);
  p.output_width = static_cast<int64_t>(at.canvas.width);
}

// Means of small pictures of the images: NOTE [ Grey means ].
Numbers grey_means(const ChainPlan& plan, const MeanRound& round, const Means& before,
                   const Sampling& sampling, const AugmentParams& image, const Numbers& windows,
                   const Threads& threads) {
  const ColorSteps& steps = plan.colors[round.step];
  const int64_t rows = steps.at[0].rows();
  Numbers matrices(static_cast<size_t>(plan.batch * rows * 3));
  double* next = matrices.data();
  for (const GeometryState& at : steps.at) {
    write_mean_grid(at, next);
    next += rows * 3;
  }
  Numbers color;
  if (round.before.steps > 0) {
    color = with_means(round.before, plan.batch, plan.channels, before);
  }
  AugmentParams p = image;
  p.matrix = {matrices.data(), DType::kFloat64, false, rows * 3, 3, 1};
  p.matrix_rows = static_cast<int>(rows);
  p.mode = Interpolation::kNearest;
  p.padding = sampling.padding;
  p.half_pixel = true;
  p.clamp = !color.empty();
  p.window = windows.empty() ? nullptr : windows.data();
  p.color = color.empty() ? nullptr : color.data();
  p.color_steps = color.empty() ? 0 : 1;
  p.output_dtype = DType::kUInt8;
  p.output_height = p.output_width = kMeanGrid;
  std::vector<uint8_t> picture(
      static_cast<size_t>(plan.batch * p.channels * kMeanGrid * kMeanGrid));
  p.output = picture.data();
  p.output_stride = {p.channels * kMeanGrid * kMeanGrid, kMeanGrid * kMeanGrid, kMeanGrid, 1};
  const Numbers none, zero = {0.0};
  const AugmentValues values = {sampling.fill, none, none, zero};
  run_augment(p, values, threads);
  Numbers means;
  constexpr int64_t kPixels = kMeanGrid * kMeanGrid;
  for (int64_t i = 0; i < plan.batch; ++i) {
    const uint8_t* const own = picture.data() + i * p.channels * kPixels;
    means.push_back(mean_of_picture(own, p.channels, kPixels, mean_scale(kPixels)));
  }
  return means;
}

Numbers colors_of(const ChainPlan& plan, const Sampling& sampling, const AugmentParams& image,
                  const Numbers& windows, const Threads& threads) {
  const ColorProgram program = color_program(plan);
  Means means;
  for (const MeanRound& round : program.rounds) {
    means.push_back(grey_means(plan, round, means, sampling, image, windows, threads));
  }
  return with_means(program.whole, plan.batch, plan.color_channels(), means);
}

// The grey mean of a picture [channels, pixels] with white at 1. Its sums are of integers, so they
// don't depend on order.
double exact_mean(const float* picture, int64_t channels, int64_t pixels) {
  constexpr double kScale = 4294967296.0;
  double sums[kGreyChannels] = {};
  for (int c = 0; c < grey_channels(channels); ++c) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < pixels; ++i) {
      const double value = static_cast<double>(picture[c * pixels + i]);
      const double bounded = value != value ? 0.0 : std::clamp(value, -1024.0, 1024.0);
      sum += static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(bounded * kScale)));
    }
    sums[c] = static_cast<double>(static_cast<int64_t>(sum));
  }
  double grey = sums[0];
  if (channels > 1) grey = grey * kGrey[0] + sums[1] * kGrey[1] + sums[2] * kGrey[2];
  return grey / (static_cast<double>(pixels) * kScale);
}

// Colour matrices [1, steps, C, C + 1] of an exact plan for one image, whose contrasts take the
// mean of all pixels, as they are at that point.
Numbers exact_colors(const ChainPlan& plan, const ColorProgram& program, const Sampling& sampling,
                     const AugmentParams& image, const Threads& threads) {
  const Numbers none, zero = {0.0};
  const AugmentValues values = {sampling.fill, none, none, zero};
  const Interpolation mode = sampling.modes.at(0);
  Means means;
  std::vector<float> picture;
  for (const MeanRound& round : program.rounds) {
    const std::vector<GeometryState>& at = plan.colors[round.step].at;
    Numbers color;
    const bool is_plain = !round.plain.empty() && round.plain[0] != 0;
    if (round.before.steps > 0 && !is_plain) {
      color = with_means(round.before, 1, plan.channels, means);
    }
    AugmentParams p = image;
    double matrix[9];
    set_sampling(at[0], mode, sampling, matrix, p);
    p.clamp = !color.empty();
    const Numbers windows = windows_of(at, sampling);
    p.window = windows.empty() ? nullptr : windows.data();
    p.color = color.empty() ? nullptr : color.data();
    p.color_shared = !color.empty();
    p.color_steps = color.empty() ? 0 : round.before.steps;
    p.output_dtype = DType::kFloat32;
    const int64_t pixels = p.output_height * p.output_width;
    picture.resize(static_cast<size_t>(p.channels * pixels));
    p.output = picture.data();
    p.output_stride = {0, pixels, p.output_width, 1};
    run_augment(p, values, threads);
    means.push_back({exact_mean(picture.data(), p.channels, pixels)});
  }
  return with_means(program.whole, 1, plan.color_channels(), means);
}

// The number of a channel, of numbers of which there is one or one for each.
Numbers of_channel(const Numbers& numbers, int64_t channel) {
  return numbers.size() > 1 ? Numbers{numbers.at(static_cast<size_t>(channel))} : numbers;
}

// run_pass(), of channels that colours see together.
void run_channels(const Stage& stage, const ChainPlan& plan, const AugmentImage& image, DType dtype,
                  const StridedData& to, const AugmentValues& values, const Threads& threads) {
  const Sampling& sampling = stage.sampling;
  AugmentParams p = {};
  p.batch = 1;
  p.channels = plan.channels;
  p.first = image;
  p.dtype = dtype;
  const AugmentParams source = p;
  p.output_dtype = stage.dtype;
  p.output = to.address;
  p.output_stride = {0, to.strides[0], to.strides[1], to.strides[2]};
  double matrix[9];
  const Interpolation mode = sampling.mode_of(plan, 0);
  set_sampling(plan.samples.at(0), mode, sampling, matrix, p);
  const Numbers windows = windows_of(plan.samples, sampling);
  if (!windows.empty()) p.window = windows.data();
  std::vector<int64_t> erased;
  for (const Numbers& rectangle : plan.erased) {
    for (double edge : rectangle) erased.push_back(static_cast<int64_t>(edge));
  }
  if (!erased.empty()) {
    p.erase = erased.data();
    p.erase_count = static_cast<int64_t>(plan.erased.size());
  }
  Numbers color;
  const bool saturates = sampling.clamps(mode, dtype);
  if (!plan.colors.empty()) {
    int64_t steps = 1;
    if (plan.exact) {
      const ColorProgram program = color_program(plan);
      color = exact_colors(plan, program, sampling, source, threads);
      steps = program.whole.steps;
      if (saturates) {  // before colours change: a first step that only clamps
        const ColorMatrix identity = identity_color(plan.color_channels());
        const int64_t size = plan.color_channels() * (plan.color_channels() + 1);
        color.insert(color.begin(), identity.begin(), identity.begin() + size);
        ++steps;
      }
    } else {
      color = colors_of(plan, sampling, source, windows, threads);
    }
    p.color = color.data();
    p.color_shared = true;
    p.clamp = plan.clamps;
    p.color_steps = steps;
  }
  p.clamp = p.clamp || saturates;
  run_augment(p, values, threads);
}

// Warps an image into another of its size.
void warp(const PixelImage& from, void* to, const PixelOperation& operation,
          const PixelSampling& sampling, const Threads& threads) {
  const int64_t plane = from.height * from.width;
  warp_image({from.data, from.height, from.width, plane, from.width, 1}, from.channels, from.dtype,
             operation.matrix, sampling.mode, sampling.fill, to, {0, plane, from.width, 1},
             threads);
}

}  // namespace

void run_pass(const Stage& stage, const ChainPlan& plan, const AugmentImage& image, DType dtype,
              const StridedData& to, const Threads& threads) {
  const Numbers& fills = stage.sampling.fill;
  if (plan.colors.empty() || plan.color_channels() == plan.channels) {
    return run_channels(stage, plan, image, dtype, to,
                        {fills, stage.mean, stage.std, stage.erase_value}, threads);
  }
  ChainPlan own = plan;
  own.channels = 1;
  const int64_t step = element_size(dtype), out_step = element_size(stage.dtype);
  for (int64_t c = 0; c < plan.channels; ++c) {
    AugmentImage from = image;
    from.data = static_cast<const char*>(image.data) + c * image.channel_stride * step;
    StridedData out = to;
    out.address = static_cast<char*>(to.address) + c * to.strides[0] * out_step;
    const Numbers fill = of_channel(fills, c), mean = of_channel(stage.mean, c),
                  std = of_channel(stage.std, c), erased = of_channel(stage.erase_value, c);
    run_channels(stage, own, from, dtype, out, {fill, mean, std, erased}, threads);
  }
}

std::vector<double> colors_with_means(const ChainPlan& plan, const Sampling& sampling,
                                      const AugmentParams& images, const Threads& threads) {
  return colors_of(plan, sampling, images, windows_of(plan.samples, sampling), threads);
}

int64_t kinds_of(const ChainPlan& plan, const Sampling& sampling, bool bytes, size_t number) {
  const Numbers windows = windows_of(plan.samples, sampling);
  AugmentParams p = {};
  p.mode = sampling.modes.at(number);
  p.padding = sampling.padding;
  p.antialias = p.half_pixel = true;
  p.integers = bytes;
  int64_t kinds = 0;
  for (size_t i = 0; i < plan.samples.size(); ++i) {
    if (!plan.modes.empty() && plan.modes[i] != number) continue;
    const GeometryState& at = plan.samples[i];
    double matrix[9];
    at.write_rows(false, matrix);
    p.matrix = {matrix, DType::kFloat64, true, 0, 3, 1};
    p.matrix_rows = static_cast<int>(at.rows());
    p.window = windows.empty() ? nullptr : windows.data() + 4 * i;
    AugmentImage image = {};
    image.height = static_cast<int64_t>(at.source.height);
    image.width = static_cast<int64_t>(at.source.width);
    kinds |= bit_of(kind_of(augment_sample(p, 0, image)));
  }
  return kinds;
}

void run_pixel_list(const std::vector<PixelOperation>& operations, const PixelImage& image,
                    const PixelSampling& sampling, const Threads& threads) {
  if (operations.empty() || image.size() == 0) return;
  const size_t bytes = static_cast<size_t>(image.size() * element_size(image.dtype));
  // Not filled with zeros: most operations don't touch it.
  const std::unique_ptr<unsigned char[]> scratch(new unsigned char[bytes]);
  for (const PixelOperation& operation : operations) {
    if (operation.kind == PixelKind::kAffine) {
      warp(image, scratch.get(), operation, sampling, threads);
      std::memcpy(image.data, scratch.get(), bytes);
    } else {
      run_pixel_operation(operation, image, scratch.get());
    }
  }
}

}  // namespace visops
