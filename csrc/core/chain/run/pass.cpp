#include "core/chain/run/pass.h"

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

// Means of small pictures of the images: NOTE [ Grey means ].
Numbers grey_means(const ChainPlan& plan, const MeanRound& round, const Means& before,
                   const Sampling& sampling, const AugmentParams& images, const Threads& threads) {
  PassProblem problem = PassProblem::of_mean(plan.colors[round.step].at, sampling);
  problem.set_images(images);
  Numbers color;
  if (round.before.steps > 0) {
    color = with_means(round.before, plan.batch, plan.channels, before);
  }
  problem.set_color(color, 1, false);
  AugmentParams& p = problem.params;
  p.clamp = !color.empty();
  constexpr int64_t kPixels = kMeanGrid * kMeanGrid;
  std::vector<uint8_t> picture(static_cast<size_t>(plan.batch * p.channels * kPixels));
  p.output = picture.data();
  p.output_stride = {p.channels * kPixels, kPixels, kMeanGrid, 1};
  const Numbers none, zero = {0.0};
  run_augment(p, {sampling.fill, none, none, zero}, threads);
  Numbers means;
  for (int64_t i = 0; i < plan.batch; ++i) {
    const uint8_t* const own = picture.data() + i * p.channels * kPixels;
    means.push_back(mean_of_picture(own, p.channels, kPixels, mean_scale(kPixels)));
  }
  return means;
}

Numbers colors_of(const ChainPlan& plan, const ColorProgram& program, const Sampling& sampling,
                  const AugmentParams& images, const Threads& threads) {
  Means means;
  for (const MeanRound& round : program.rounds) {
    means.push_back(grey_means(plan, round, means, sampling, images, threads));
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
  Means means;
  std::vector<float> picture;
  for (const MeanRound& round : program.rounds) {
    PassProblem problem(plan.colors[round.step].at, sampling.modes.at(0), sampling);
    problem.set_images(image);
    Numbers color;
    const bool is_plain = !round.plain.empty() && round.plain[0] != 0;
    if (round.before.steps > 0 && !is_plain) {
      color = with_means(round.before, 1, plan.channels, means);
    }
    problem.set_color(color, round.before.steps, true);
    AugmentParams& p = problem.params;
    p.clamp = !color.empty();
    p.output_dtype = DType::kFloat32;
    const int64_t pixels = p.output_height * p.output_width;
    picture.resize(static_cast<size_t>(p.channels * pixels));
    p.output = picture.data();
    p.output_stride = {0, pixels, p.output_width, 1};
    run_augment(p, {sampling.fill, none, none, zero}, threads);
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
  const Interpolation mode = sampling.mode_of(plan, 0);
  AugmentParams source = {};
  source.channels = plan.channels;
  source.first = image;
  source.dtype = dtype;
  PassProblem problem(plan.samples, mode, sampling);
  problem.set_images(source);
  problem.erase(plan.erased);
  AugmentParams& p = problem.params;
  p.output_dtype = stage.dtype;
  p.output = to.address;
  p.output_stride = {0, to.strides[0], to.strides[1], to.strides[2]};
  const bool saturates = sampling.clamps(mode, dtype);
  const ColorProgram program = color_program(plan);
  Numbers color;
  int64_t steps = program.whole.steps;
  if (!plan.colors.empty()) {
    color = plan.exact ? exact_colors(plan, program, sampling, source, threads)
                       : colors_of(plan, program, sampling, source, threads);
    if (plan.exact && saturates) {  // before colours change
      put_identity_first(color, 1, plan.color_channels());
      ++steps;
    }
    p.clamp = plan.clamps;
  }
  problem.set_color(color, steps, true);
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
  return colors_of(plan, color_program(plan), sampling, images, threads);
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
