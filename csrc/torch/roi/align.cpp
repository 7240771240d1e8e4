// The torch fronts of RoIAlign: of one map, and of a pyramid.
#include <cmath>

#include "core/check.h"
#include "torch/register.h"
#include "torch/roi/front.h"
#include "torch/roi/run.h"

namespace visops {
namespace {

using Sizes = std::vector<int64_t>;

RoiCall with_samples(RoiCall call, int64_t sampling_ratio, bool aligned) {
  call.params.sampling_ratio = sampling_ratio;
  call.params.aligned = aligned;
  return call;
}

RoiCall map_call(const char* op, const Tensor& input, const Tensor& boxes, double scale,
                 int64_t sampling_ratio, bool aligned) {
  return with_samples(call_on_map(op, input, boxes, 5, scale), sampling_ratio, aligned);
}

void set_index(RoiCall& call, const Tensor& index, const Tensor& reference) {
  call.set_index(index, DType::kInt64, reference);
  call.params.index = static_cast<int64_t*>(const_cast<void*>(index.const_data_ptr()));
}

Tensor roi_align(const Tensor& input, const Tensor& boxes, const Sizes& output_size,
                 double spatial_scale, int64_t sampling_ratio, bool aligned) {
  RoiCall call = map_call("roi_align", input, boxes, spatial_scale, sampling_ratio, aligned);
  call.set_output_size(output_size);
  call.check(boxes);
  const Tensor bins = call.empty_bins(input, prefers_channels_last(input));
  run_roi_align(call, input);
  return bins;
}

std::tuple<Tensor, Tensor> roi_align_max(const Tensor& input, const Tensor& boxes,
                                         const Sizes& output_size, double spatial_scale,
                                         int64_t sampling_ratio, bool aligned) {
  RoiCall call = map_call("roi_align", input, boxes, spatial_scale, sampling_ratio, aligned);
  call.set_output_size(output_size);
  call.check(boxes);
  const Tensor bins = call.empty_bins(input, prefers_channels_last(input));
  const Tensor index = call.empty_index(input, DType::kInt64, prefers_channels_last(input));
  call.params.index = static_cast<int64_t*>(index.mutable_data_ptr());
  run_over_boxes(roi_align_max_stub, call, input);
  return {bins, index};
}

Tensor roi_align_max_at(const Tensor& input, const Tensor& index, const Tensor& boxes,
                        const Sizes& output_size, double spatial_scale, int64_t sampling_ratio,
                        bool aligned) {
  RoiCall call = map_call("roi_align_max_at", input, boxes, spatial_scale, sampling_ratio, aligned);
  call.set_output_size(output_size);
  call.check(boxes);
  const Tensor bins = call.empty_bins(input, prefers_channels_last(input));
  set_index(call, index, input);
  run_over_boxes(roi_align_max_at_stub, call, input);
  return bins;
}

Tensor input_gradient(const char* op, const KernelStub<RoiAlignParams>& stub, const Tensor* index,
                      const Tensor& grad, const Tensor& boxes, const Sizes& input_size,
                      double spatial_scale, int64_t sampling_ratio, bool aligned,
                      bool channels_last) {
  check_input_size(op, input_size);
  RoiCall call =
      with_samples(call_for_gradient(op, grad, boxes, 5, input_size[0]), sampling_ratio, aligned);
  require(input_size[1] == call.params.channels, op, "input_size is ", shape_text(input_size),
          ", grad has ", call.params.channels, " channels");
  if (index != nullptr) set_index(call, *index, grad);
  const Tensor gradient =
      call.add_gradient(grad, input_size[2], input_size[3], spatial_scale, channels_last);
  call.check(boxes);
  run_over_maps(stub, call, grad);
  return gradient;
}

Tensor roi_align_backward_input(const Tensor& grad, const Tensor& boxes, const Sizes& input_size,
                                double spatial_scale, int64_t sampling_ratio, bool aligned,
                                bool channels_last) {
  return input_gradient("roi_align_backward_input", roi_align_backward_input_stub, nullptr, grad,
                        boxes, input_size, spatial_scale, sampling_ratio, aligned, channels_last);
}

Tensor roi_align_max_backward_input(const Tensor& grad, const Tensor& index, const Tensor& boxes,
                                    const Sizes& input_size, double spatial_scale,
                                    int64_t sampling_ratio, bool aligned, bool channels_last) {
  return input_gradient("roi_align_max_backward_input", roi_align_max_backward_input_stub, &index,
                        grad, boxes, input_size, spatial_scale, sampling_ratio, aligned,
                        channels_last);
}

// Of a call that has its grad.
Tensor boxes_gradient(RoiCall& call, const KernelStub<RoiAlignParams>& stub, const Tensor& grad,
                      const Tensor& boxes) {
  const Tensor gradient = call.empty_boxes_gradient(boxes);
  call.check(boxes);
  run_over_boxes(stub, call, grad);
  return gradient;
}

Tensor roi_align_backward_boxes(const Tensor& grad, const Tensor& input, const Tensor& boxes,
                                double spatial_scale, int64_t sampling_ratio, bool aligned) {
  RoiCall call =
      map_call("roi_align_backward_boxes", input, boxes, spatial_scale, sampling_ratio, aligned);
  call.set_grad(grad);
  return boxes_gradient(call, roi_align_backward_boxes_stub, grad, boxes);
}

Tensor roi_align_max_backward_boxes(const Tensor& grad, const Tensor& index, const Tensor& input,
                                    const Tensor& boxes, double spatial_scale,
                                    int64_t sampling_ratio, bool aligned) {
  RoiCall call = map_call("roi_align_max_backward_boxes", input, boxes, spatial_scale,
                          sampling_ratio, aligned);
  call.set_grad(grad);
  set_index(call, index, input);
  return boxes_gradient(call, roi_align_max_backward_boxes_stub, grad, boxes);
}

// How a pyramid's boxes choose their level.
struct LevelChoice {
  double canonical_scale;
  int64_t canonical_level;
  const std::string& rule;
};

void set_levels(RoiCall& call, const std::vector<double>& scales, const LevelChoice& choice) {
  const char* op = call.op;
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
  call.params.level_rule = levels;
}

RoiCall pyramid_call(const char* op, const std::vector<Tensor>& features, const Tensor& boxes,
                     const std::vector<double>& scales, int64_t sampling_ratio, bool aligned,
                     const LevelChoice& choice) {
  RoiCall call = {op, "features"};
  require(features.size() == scales.size(), op, "features has ", features.size(),
          " tensors, scales has ", scales.size(), " numbers");
  set_levels(call, scales, choice);
  for (size_t i = 0; i < features.size(); ++i) {
    const std::string name = "features[" + std::to_string(i) + "]";
    check_same_device(op, "features[0]", features[0], name.c_str(), features[i]);
    call.add_features(name, features[i], scales[i]);
  }
  call.set_boxes(boxes, 5, "features[0]", features[0]);
  return with_samples(call, sampling_ratio, aligned);
}

Tensor multiscale_roi_align(const std::vector<Tensor>& features, const Tensor& boxes,
                            const Sizes& output_size, const std::vector<double>& scales,
                            int64_t sampling_ratio, bool aligned, double canonical_scale,
                            int64_t canonical_level, const std::string& level_rule) {
  RoiCall call = pyramid_call("multiscale_roi_align", features, boxes, scales, sampling_ratio,
                              aligned, {canonical_scale, canonical_level, level_rule});
  call.set_output_size(output_size);
  call.check(boxes);
  const Tensor bins = call.empty_bins(features[0], prefers_channels_last(features[0]));
  run_roi_align(call, features[0]);
  return bins;
}

std::vector<Tensor> multiscale_roi_align_backward_input(
    const Tensor& grad, const Tensor& boxes, const Sizes& sizes, int64_t batch,
    const std::vector<double>& scales, int64_t sampling_ratio, bool aligned, double canonical_scale,
    int64_t canonical_level, const std::string& level_rule,
    const std::vector<bool>& channels_last) {
  const char* op = "multiscale_roi_align_backward_input";
  RoiCall call =
      with_samples(call_for_gradient(op, grad, boxes, 5, batch), sampling_ratio, aligned);
  set_levels(call, scales, {canonical_scale, canonical_level, level_rule});
  require(sizes.size() == 2 * scales.size() && channels_last.size() == scales.size(), op,
          "sizes is ", shape_text(sizes), ", must have two numbers for each of ", scales.size(),
          " levels, channels_last one");
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < scales.size(); ++i) {
    gradients.push_back(
        call.add_gradient(grad, sizes[2 * i], sizes[2 * i + 1], scales[i], channels_last[i]));
  }
  call.check(boxes);
  run_over_maps(roi_align_backward_input_stub, call, grad);
  return gradients;
}

Tensor multiscale_roi_align_backward_boxes(const Tensor& grad, const std::vector<Tensor>& features,
                                           const Tensor& boxes, const std::vector<double>& scales,
                                           int64_t sampling_ratio, bool aligned,
                                           double canonical_scale, int64_t canonical_level,
                                           const std::string& level_rule) {
  RoiCall call =
      pyramid_call("multiscale_roi_align_backward_boxes", features, boxes, scales, sampling_ratio,
                   aligned, {canonical_scale, canonical_level, level_rule});
  call.set_grad(grad);
  return boxes_gradient(call, roi_align_backward_boxes_stub, grad, boxes);
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("roi_align", TORCH_BOX(&visops::roi_align));
  m.impl("roi_align_backward_input", TORCH_BOX(&visops::roi_align_backward_input));
  m.impl("roi_align_backward_boxes", TORCH_BOX(&visops::roi_align_backward_boxes));
  m.impl("roi_align_max", TORCH_BOX(&visops::roi_align_max));
  m.impl("roi_align_max_at", TORCH_BOX(&visops::roi_align_max_at));
  m.impl("roi_align_max_backward_input", TORCH_BOX(&visops::roi_align_max_backward_input));
  m.impl("roi_align_max_backward_boxes", TORCH_BOX(&visops::roi_align_max_backward_boxes));
  m.impl("multiscale_roi_align", TORCH_BOX(&visops::multiscale_roi_align));
  m.impl("multiscale_roi_align_backward_input",
         TORCH_BOX(&visops::multiscale_roi_align_backward_input));
  m.impl("multiscale_roi_align_backward_boxes",
         TORCH_BOX(&visops::multiscale_roi_align_backward_boxes));
}
