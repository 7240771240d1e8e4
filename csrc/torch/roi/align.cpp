// The torch fronts of RoIAlign: of one map, and of a pyramid.
#include <cmath>

#include "core/check.h"
#include "torch/register.h"
#include "torch/roi/front.h"

namespace visops {
namespace {

using Stub = KernelStub<RoiAlignParams>;

bool has_bins(const RoiCall& call) {
  return call.params.boxes.count > 0 && call.params.channels > 0;
}

// CPU kernels of maxima compute neighbouring channels as vectors.
void prefer_adjacent_channels(RoiCall& call, const Tensor& on) {
  if (!runs_cuda_kernels(on)) gather_channels(call);
}

Tensor means(const RoiCall& call, const Tensor& like) {
  const Tensor bins = empty_bins(call, like);
  if (has_bins(call)) run(roi_align_stub, call.op, with_bins(call.params, bins), like);
  return bins;
}

Tensor roi_align(const Tensor& input, const Tensor& boxes, const Sizes& output_size,
                 double spatial_scale, int64_t sampling_ratio, bool aligned) {
  const RoiSampling sampling = {{spatial_scale}, sampling_ratio, aligned};
  return means(call_on_maps("roi_align", {"input", {input}}, {boxes}, sampling, output_size),
               input);
}

std::tuple<Tensor, Tensor> roi_align_max(const Tensor& input, const Tensor& boxes,
                                         const Sizes& output_size, double spatial_scale,
                                         int64_t sampling_ratio, bool aligned) {
  check_sample_grid("roi_align", sampling_ratio, "maxima");
  RoiCall call = call_on_maps("roi_align", {"input", {input}}, {boxes},
                              {{spatial_scale}, sampling_ratio, aligned}, output_size);
  const Tensor bins = empty_bins(call, input);
  const Tensor index = empty_index(call, input, DType::kInt64);
  if (has_bins(call)) {
    prefer_adjacent_channels(call, input);
    run(roi_align_max_stub, call.op, with_index(with_bins(call.params, bins), index), input);
  }
  return {bins, index};
}

Tensor roi_align_max_at(const Tensor& input, const Tensor& index, const Tensor& boxes,
                        const Sizes& output_size, double spatial_scale, int64_t sampling_ratio,
                        bool aligned) {
  RoiCall call = call_on_maps("roi_align_max_at", {"input", {input}}, {boxes},
                              {{spatial_scale}, sampling_ratio, aligned}, output_size);
  check_index(call, index, DType::kInt64, "input", input);
  const Tensor bins = empty_bins(call, input);
  if (has_bins(call)) {
    prefer_adjacent_channels(call, input);
    run(roi_align_max_at_stub, call.op, with_index(with_bins(call.params, bins), index), input);
  }
  return bins;
}

// Computes the gradient of a call's maps into tensors that its parameters name.
void sum_gradients(const Stub& stub, const char* op, const RoiAlignParams& p, const Tensor& on) {
  bool has_pixels = p.images > 0 && p.channels > 0, has_map = false;
  for (int64_t level = 0; level < p.levels; ++level) {
    has_map = has_map || (p.maps[level].height > 0 && p.maps[level].width > 0);
  }
  if (has_pixels && has_map) run(stub, op, p, on);
}

Tensor roi_align_backward_input(const Tensor& grad, const Tensor& boxes, const Sizes& input_size,
                                double spatial_scale, int64_t sampling_ratio, bool aligned,
                                bool channels_last) {
  const RoiCall call = call_for_map("roi_align_backward_input", grad, {boxes},
                                    {{spatial_scale}, sampling_ratio, aligned}, input_size);
  check_channels(call.op, input_size, call.params.channels);
  const Tensor gradient =
      empty_tensor(call.op, "gradient", grad, input_size, call.params.dtype, channels_last);
  sum_gradients(roi_align_backward_input_stub, call.op, with_map(call.params, 0, gradient), grad);
  return gradient;
}

Tensor roi_align_max_backward_input(const Tensor& grad, const Tensor& index, const Tensor& boxes,
                                    const Sizes& input_size, double spatial_scale,
                                    int64_t sampling_ratio, bool aligned, bool channels_last) {
  const RoiCall call = call_for_map("roi_align_max_backward_input", grad, {boxes},
                                    {{spatial_scale}, sampling_ratio, aligned}, input_size);
  check_channels(call.op, input_size, call.params.channels);
  check_index(call, index, DType::kInt64, "grad", grad);
  const Tensor gradient =
      empty_tensor(call.op, "gradient", grad, input_size, call.params.dtype, channels_last);
  sum_gradients(roi_align_max_backward_input_stub, call.op,
                with_index(with_map(call.params, 0, gradient), index), grad);
  return gradient;
}

// `index` is null for means.
Tensor boxes_gradient(const Stub& stub, RoiCall call, const Tensor* index, const Tensor& grad,
                      const Tensor& boxes) {
  Tensor gradient = empty_boxes_gradient(call, boxes);
  if (!has_bins(call)) return torch::stable::zero_(gradient);
  gather_channels(call);
  RoiAlignParams p = with_boxes_gradient(call.params, gradient);
  if (index != nullptr) p = with_index(p, *index);
  run(stub, call.op, p, grad);
  return gradient;
}

Tensor roi_align_backward_boxes(const Tensor& grad, const Tensor& input, const Tensor& boxes,
                                double spatial_scale, int64_t sampling_ratio, bool aligned) {
  return boxes_gradient(
      roi_align_backward_boxes_stub,
      call_on_maps_and_grad("roi_align_backward_boxes", {"input", {input}}, {boxes},
                            {{spatial_scale}, sampling_ratio, aligned}, grad),
      nullptr, grad, boxes);
}

Tensor roi_align_max_backward_boxes(const Tensor& grad, const Tensor& index, const Tensor& input,
                                    const Tensor& boxes, double spatial_scale,
                                    int64_t sampling_ratio, bool aligned) {
  const RoiCall call =
      call_on_maps_and_grad("roi_align_max_backward_boxes", {"input", {input}}, {boxes},
                            {{spatial_scale}, sampling_ratio, aligned}, grad);
  check_index(call, index, DType::kInt64, "input", input);
  return boxes_gradient(roi_align_max_backward_boxes_stub, call, &index, grad, boxes);
}

// How a pyramid's boxes choose their level.
struct LevelChoice {
  double canonical_scale;
  int64_t canonical_level;
  const std::string& rule;
};

RoiLevels parse_levels(const char* op, const std::vector<double>& scales,
                       const LevelChoice& choice) {
  require(!scales.empty() && scales.size() <= kMostRoiLevels, op, "scales has ", scales.size(),
          " numbers, must have 1 to ", kMostRoiLevels);
  for (const double scale : scales) {
    require(scale > 0.0 && scale <= std::numeric_limits<double>::max(), op, "scales is ",
            shape_text(scales), ", must be finite and > 0");
  }
  RoiLevels levels = {};
  for (size_t i = 0; i < scales.size(); ++i) {
    levels.number[i] = std::llround(-std::log2(scales[i]));
    require(i == 0 || levels.number[i] > levels.number[i - 1], op, "scales is ", shape_text(scales),
            ", each must be at most half of the one before");
  }
  require(
      choice.canonical_scale > 0.0 && choice.canonical_scale <= std::numeric_limits<double>::max(),
      op, "canonical_scale is ", choice.canonical_scale, ", must be finite and > 0");
  const bool is_torchvision = choice.rule == "torchvision";
  require(is_torchvision || choice.rule == "detectron2", op, "level_rule is '", choice.rule,
          "', must be torchvision or detectron2");
  levels.rule = is_torchvision ? RoiLevelRule::kTorchvision : RoiLevelRule::kDetectron2;
  levels.canonical_scale = choice.canonical_scale;
  levels.canonical_level = choice.canonical_level;
  return levels;
}

// The sampling of a pyramid, which must have as many maps as scales.
RoiSampling pyramid_sampling(const char* op, const std::vector<Tensor>& features,
                             const std::vector<double>& scales, int64_t sampling_ratio,
                             bool aligned, const LevelChoice& choice) {
  require(features.size() == scales.size(), op, "features has ", features.size(),
          " tensors, scales has ", scales.size(), " numbers");
  return {scales, sampling_ratio, aligned, parse_levels(op, scales, choice)};
}

Tensor multiscale_roi_align(const std::vector<Tensor>& features, const Tensor& boxes,
                            const Sizes& output_size, const std::vector<double>& scales,
                            int64_t sampling_ratio, bool aligned, double canonical_scale,
                            int64_t canonical_level, const std::string& level_rule) {
  const char* op = "multiscale_roi_align";
  const RoiSampling sampling = pyramid_sampling(op, features, scales, sampling_ratio, aligned,
                                                {canonical_scale, canonical_level, level_rule});
  return means(call_on_maps(op, {"features", features, true}, {boxes}, sampling, output_size),
               features[0]);
}

std::vector<Tensor> multiscale_roi_align_backward_input(
    const Tensor& grad, const Tensor& boxes, const Sizes& sizes, int64_t batch,
    const std::vector<double>& scales, int64_t sampling_ratio, bool aligned, double canonical_scale,
    int64_t canonical_level, const std::string& level_rule,
    const std::vector<bool>& channels_last) {
  const char* op = "multiscale_roi_align_backward_input";
  const RoiLevels levels = parse_levels(op, scales, {canonical_scale, canonical_level, level_rule});
  require(sizes.size() == 2 * scales.size() && channels_last.size() == scales.size(), op,
          "sizes is ", shape_text(sizes), ", must have two numbers for each of ", scales.size(),
          " levels, channels_last one");
  std::vector<std::pair<int64_t, int64_t>> sizes_of_maps;
  for (size_t i = 0; i < scales.size(); ++i) {
    sizes_of_maps.push_back({sizes[2 * i], sizes[2 * i + 1]});
  }
  const RoiCall call = call_for_maps(op, grad, {boxes}, {scales, sampling_ratio, aligned, levels},
                                     batch, sizes_of_maps);
  RoiAlignParams p = call.params;
  std::vector<Tensor> gradients;
  for (int64_t i = 0; i < p.levels; ++i) {
    gradients.push_back(empty_tensor(op, "gradient", grad,
                                     {batch, p.channels, p.maps[i].height, p.maps[i].width},
                                     p.dtype, channels_last[i]));
    p = with_map(p, i, gradients.back());
  }
  sum_gradients(roi_align_backward_input_stub, op, p, grad);
  return gradients;
}

Tensor multiscale_roi_align_backward_boxes(const Tensor& grad, const std::vector<Tensor>& features,
                                           const Tensor& boxes, const std::vector<double>& scales,
                                           int64_t sampling_ratio, bool aligned,
                                           double canonical_scale, int64_t canonical_level,
                                           const std::string& level_rule) {
  const char* op = "multiscale_roi_align_backward_boxes";
  const RoiSampling sampling = pyramid_sampling(op, features, scales, sampling_ratio, aligned,
                                                {canonical_scale, canonical_level, level_rule});
  return boxes_gradient(
      roi_align_backward_boxes_stub,
      call_on_maps_and_grad(op, {"features", features, true}, {boxes}, sampling, grad), nullptr,
      grad, boxes);
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("roi_align", VISOPS_BOX(&visops::roi_align));
  m.impl("roi_align_backward_input", VISOPS_BOX(&visops::roi_align_backward_input));
  m.impl("roi_align_backward_boxes", VISOPS_BOX(&visops::roi_align_backward_boxes));
  m.impl("roi_align_max", VISOPS_BOX(&visops::roi_align_max));
  m.impl("roi_align_max_at", VISOPS_BOX(&visops::roi_align_max_at));
  m.impl("roi_align_max_backward_input", VISOPS_BOX(&visops::roi_align_max_backward_input));
  m.impl("roi_align_max_backward_boxes", VISOPS_BOX(&visops::roi_align_max_backward_boxes));
  m.impl("multiscale_roi_align", VISOPS_BOX(&visops::multiscale_roi_align));
  m.impl("multiscale_roi_align_backward_input",
         VISOPS_BOX(&visops::multiscale_roi_align_backward_input));
  m.impl("multiscale_roi_align_backward_boxes",
         VISOPS_BOX(&visops::multiscale_roi_align_backward_boxes));
}
