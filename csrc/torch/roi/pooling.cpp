// The torch fronts of roi_pool, ps_roi_align and roi_align_rotated.
#include "core/check.h"
#include "core/roi/align_rotated.h"
#include "core/roi/pool.h"
#include "core/roi/schedule.h"
#include "torch/register.h"
#include "torch/roi/front.h"

namespace visops {
namespace {

int64_t bins_of(const RoiAlignParams& p) { return saturating_product(p.bins_y, p.bins_x); }

// CPU kernels compute neighbouring channels as vectors, so a map with more than a few channels is
// best summed channels_last, whatever the layout of the arguments. CUDA kernels take any layout.
bool prefers_adjacent_channels(const RoiAlignParams& p, const Tensor& on) {
  constexpr int64_t kFewChannels = 8;
  return !runs_cuda_kernels(on) && p.channels >= kFewChannels;
}

// A gradient of a map as kernels sum it: in float32 for half precision.
struct MapGradient {
  Tensor sums;
  DType dtype;
  bool is_turned;  // channels_last, for a result that is not

  Tensor result() const {
    const bool same = sums.scalar_type() == scalar_type_of(dtype);
    const Tensor rounded = same ? sums : torch::stable::to(sums, scalar_type_of(dtype));
    return is_turned ? torch::stable::contiguous(rounded) : rounded;
  }
};

MapGradient empty_gradient(const RoiCall& call, const Tensor& grad, const Sizes& input_size,
                           bool channels_last, bool may_turn = false) {
  const DType dtype = call.params.dtype;
  const DType sum_dtype = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const bool has_pixels = input_size[2] > 1 || input_size[3] > 1;  // else the layouts are one
  const bool is_turned = may_turn && !channels_last && has_pixels;
  return {
      empty_tensor(call.op, "gradient", grad, input_size, sum_dtype, channels_last || is_turned),
      dtype, is_turned};
}

void check_pixels(const RoiCall& call, const char* name) {
  const RoiMap& map = call.params.maps[0];
  require(saturating_product(map.height, map.width) < (int64_t{1} << 31), call.op, name,
          " has height and width ", shape_text(Sizes{map.height, map.width}),
          ", must have less than 2^31 pixels");
}

RoiPoolParams pool_params(const RoiAlignParams& p, const Tensor& index) {
  return {with_index_strides(p, index),
          static_cast<int32_t*>(const_cast<void*>(index.const_data_ptr()))};
}

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& boxes,
                                    const Sizes& output_size, double spatial_scale) {
  RoiCall call =
      call_on_maps("roi_pool", {"input", {input}}, {boxes}, {{spatial_scale}}, output_size);
  check_pixels(call, "input");
  const Tensor bins = empty_bins(call, input);
  const Tensor index = empty_index(call, input, DType::kInt32);
  if (bins.numel() > 0) {
    if (prefers_adjacent_channels(call.params, input)) gather_channels(call);
    const RoiAlignParams p = with_bins(call.params, bins);
    run(roi_pool_stub, call.op, pool_params(p, index), input);
  }
  return {bins, index};
}

Tensor roi_pool_backward(const Tensor& grad, const Tensor& index, const Tensor& boxes,
                         const Sizes& input_size, double spatial_scale, bool channels_last) {
  const RoiCall call =
      call_for_map("roi_pool_backward", grad, {boxes}, {{spatial_scale}}, input_size);
  check_channels(call.op, input_size, call.params.channels);
  check_index(call, index, DType::kInt32, "grad", grad);
  check_pixels(call, "grad");
  const MapGradient gradient = empty_gradient(call, grad, input_size, channels_last);
  if (gradient.sums.numel() > 0) {
    const RoiAlignParams p = with_map(call.params, 0, gradient.sums);
    run(roi_pool_backward_stub, call.op, pool_params(p, index), grad);
  }
  return gradient.result();
}

// The elements with the given index: the derivative of the backward by grad.
Tensor roi_pool_at(const Tensor& input, const Tensor& index, const Tensor& boxes,
                   double spatial_scale) {
  const char* op = "roi_pool_at";
  check_four_dimensions(op, "index", index);
  const RoiCall call = call_on_maps(op, {"input", {input}}, {boxes}, {{spatial_scale}},
                                    {index.size(2), index.size(3)});
  check_pixels(call, "input");
  check_index(call, index, DType::kInt32, "input", input);
  const Tensor bins = empty_bins(call, input);
  if (bins.numel() > 0) {
    const RoiAlignParams p = with_bins(call.params, bins);
    run(roi_pool_at_stub, call.op, pool_params(p, index), input);
  }
  return bins;
}

Tensor ps_roi_align(const Tensor& input, const Tensor& boxes, const Sizes& output_size,
                    double spatial_scale, int64_t sampling_ratio) {
  RoiCall call = call_on_maps("ps_roi_align", {"input", {input}}, {boxes},
                              {{spatial_scale}, sampling_ratio, true}, output_size);
  const int64_t bins_of_box = bins_of(call.params);
  require(call.params.channels % bins_of_box == 0, call.op, "input has ", call.params.channels,
          " channels, must be a multiple of the number of bins, ", bins_of_box);
  call.params.channels /= bins_of_box;
  const Tensor bins = empty_bins(call, input);
  if (bins.numel() > 0) {
    run(ps_roi_align_stub, call.op, with_bins(call.params, bins), input);
  }
  return bins;
}

Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& boxes, const Sizes& input_size,
                             double spatial_scale, int64_t sampling_ratio, bool channels_last) {
  const RoiCall call = call_for_map("ps_roi_align_backward", grad, {boxes},
                                    {{spatial_scale}, sampling_ratio, true}, input_size);
  check_channels(call.op, input_size,
                 saturating_product(call.params.channels, bins_of(call.params)));
  const MapGradient gradient = empty_gradient(call, grad, input_size, channels_last);
  if (gradient.sums.numel() > 0) {
    const RoiAlignParams p = with_map(call.params, 0, gradient.sums);
    run(ps_roi_align_backward_stub, call.op, p, grad);
  }
  return gradient.result();
}

void check_rotated(const RoiCall& call, const char* name, const RoiAlignRotatedParams& p,
                   const Tensor& boxes) {
  if (!boxes.is_cuda()) check_rotated_rois(call.op, name, p);
}

Tensor roi_align_rotated(const Tensor& input, const Tensor& boxes, const Sizes& output_size,
                         double spatial_scale, int64_t sampling_ratio, bool aligned, bool clockwise,
                         bool degrees) {
  check_sample_grid("roi_align_rotated", sampling_ratio, "rotated boxes");
  RoiCall call = call_on_maps("roi_align_rotated", {"input", {input}}, {boxes, 6},
                              {{spatial_scale}, sampling_ratio, aligned}, output_size);
  check_rotated(call, "input", {call.params, clockwise, degrees}, boxes);
  const Tensor bins = empty_bins(call, input);
  if (bins.numel() > 0) {
    // CUDA kernels read adjacent channels in whole sectors where they fill a warp's.
    constexpr int64_t kWarpChannels = 32;
    const bool fills_warp = runs_cuda_kernels(input) && call.params.channels >= kWarpChannels;
    if (fills_warp || prefers_adjacent_channels(call.params, input)) gather_channels(call);
    const RoiAlignParams p = with_bins(call.params, bins);
    run(roi_align_rotated_stub, call.op, {p, clockwise, degrees}, input);
  }
  return bins;
}

Tensor roi_align_rotated_backward(const Tensor& grad, const Tensor& boxes, const Sizes& input_size,
                                  double spatial_scale, int64_t sampling_ratio, bool aligned,
                                  bool clockwise, bool degrees, bool channels_last) {
  check_sample_grid("roi_align_rotated_backward", sampling_ratio, "rotated boxes");
  const RoiCall call = call_for_map("roi_align_rotated_backward", grad, {boxes, 6},
                                    {{spatial_scale}, sampling_ratio, aligned}, input_size);
  check_channels(call.op, input_size, call.params.channels);
  check_rotated(call, "grad", {call.params, clockwise, degrees}, boxes);
  const MapGradient gradient = empty_gradient(call, grad, input_size, channels_last,
                                              prefers_adjacent_channels(call.params, grad));
  if (gradient.sums.numel() > 0) {
    const RoiAlignParams p = with_map(call.params, 0, gradient.sums);
    run(roi_align_rotated_backward_stub, call.op, {p, clockwise, degrees}, grad);
  }
  return gradient.result();
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("roi_pool", VISOPS_BOX(&visops::roi_pool));
  m.impl("roi_pool_backward", VISOPS_BOX(&visops::roi_pool_backward));
  m.impl("roi_pool_at", VISOPS_BOX(&visops::roi_pool_at));
  m.impl("ps_roi_align", VISOPS_BOX(&visops::ps_roi_align));
  m.impl("ps_roi_align_backward", VISOPS_BOX(&visops::ps_roi_align_backward));
  m.impl("roi_align_rotated", VISOPS_BOX(&visops::roi_align_rotated));
  m.impl("roi_align_rotated_backward", VISOPS_BOX(&visops::roi_align_rotated_backward));
}
