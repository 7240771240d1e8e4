// The torch fronts of roi_pool, ps_roi_align and roi_align_rotated.
#include "core/check.h"
#include "core/roi/align_rotated.h"
#include "core/roi/channel_blocks.h"
#include "core/roi/pool.h"
#include "core/roi/ps_align.h"
#include "torch/register.h"
#include "torch/roi/front.h"

namespace visops {
namespace {

using Sizes = std::vector<int64_t>;

// So many make it worth while to have them side by side.
constexpr int64_t kFewChannels = 8;

int64_t bins_of(const RoiAlignParams& p) { return saturating_product(p.bins_y, p.bins_x); }

RoiCall call_for(const char* op, const Tensor& input, const Tensor& boxes, const Sizes& output_size,
                 double scale, int64_t columns = 5) {
  RoiCall call = call_on_map(op, input, boxes, columns, scale);
  call.set_output_size(output_size);
  return call;
}

// Kernels of the CPU read channels side by side.
void prefer_adjacent_channels(RoiCall& call, const Tensor& on) {
  if (!on.is_cuda() && call.params.channels >= kFewChannels) call.gather_channels();
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

RoiCall gradient_call(const char* op, const Tensor& grad, const Tensor& boxes,
                      const Sizes& input_size, int64_t columns) {
  check_input_size(op, input_size);
  return call_for_gradient(op, grad, boxes, columns, input_size[0]);
}

void check_channels(const RoiCall& call, const Sizes& input_size, int64_t channels) {
  require(input_size[1] == channels, call.op, "input_size is ", shape_text(input_size),
          ", must have ", channels, " channels for this grad");
}

// Describes the map, for checks; it has no memory yet.
void set_map(RoiCall& call, const Sizes& input_size, double scale) {
  call.params.levels = 1;
  call.params.maps[0] = {nullptr, input_size[2], input_size[3], 0, 0, 0, 0, scale};
}

MapGradient empty_gradient(RoiCall& call, const Tensor& grad, const Sizes& input_size,
                           bool channels_last, bool is_turned = false) {
  RoiAlignParams& p = call.params;
  const DType sum_dtype = p.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Tensor sums =
      empty_tensor(call.op, "gradient", grad, input_size, sum_dtype, channels_last || is_turned);
  p.maps[0] = roi_map(sums, p.maps[0].scale);
  return {sums, p.dtype, is_turned && !channels_last};
}

void check_pixels(const RoiCall& call) {
  const RoiMap& map = call.params.maps[0];
  require(saturating_product(map.height, map.width) < (int64_t{1} << 31), call.op, call.maps_name,
          " has height and width ", shape_text(Sizes{map.height, map.width}),
          ", must have less than 2^31 pixels");
}

RoiPoolParams with_index(const RoiCall& call, const Tensor& index) {
  return {call.params, static_cast<int32_t*>(const_cast<void*>(index.const_data_ptr()))};
}

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& boxes,
                                    const Sizes& output_size, double spatial_scale) {
  RoiCall call = call_for("roi_pool", input, boxes, output_size, spatial_scale);
  call.check(boxes);
  check_pixels(call);
  const bool channels_last = prefers_channels_last(input);
  const Tensor bins = call.empty_bins(input, channels_last);
  const RoiAlignParams& p = call.params;
  const Tensor index = call.empty_index(input, DType::kInt32, channels_last);
  if (bins.numel() > 0) {
    prefer_adjacent_channels(call, input);
    run(roi_pool_stub, with_index(call, index), input, p.boxes.count, box_cost(p));
  }
  return {bins, index};
}

Tensor roi_pool_backward(const Tensor& grad, const Tensor& index, const Tensor& boxes,
                         const Sizes& input_size, double spatial_scale, bool channels_last) {
  RoiCall call = gradient_call("roi_pool_backward", grad, boxes, input_size, 5);
  check_channels(call, input_size, call.params.channels);
  call.set_index(index, DType::kInt32, grad);
  set_map(call, input_size, spatial_scale);
  call.check(boxes);
  check_pixels(call);
  const MapGradient gradient = empty_gradient(call, grad, input_size, channels_last);
  const RoiAlignParams& p = call.params;
  if (gradient.sums.numel() > 0) {
    run(roi_pool_backward_stub, with_index(call, index), grad, p.images * channel_blocks(p),
        saturating_product(p.maps[0].height * p.maps[0].width, kChannelBlock));
  }
  return gradient.result();
}

// The elements of that index: the derivative of the backward by grad.
Tensor roi_pool_at(const Tensor& input, const Tensor& index, const Tensor& boxes,
                   double spatial_scale) {
  check_four_dimensions("roi_pool_at", "index", index);
  RoiCall call =
      call_for("roi_pool_at", input, boxes, {index.size(2), index.size(3)}, spatial_scale);
  call.check(boxes);
  check_pixels(call);
  call.set_index(index, DType::kInt32, input);
  const Tensor bins = call.empty_bins(input, prefers_channels_last(input));
  const RoiAlignParams& p = call.params;
  if (bins.numel() > 0) {
    run(roi_pool_at_stub, with_index(call, index), input, p.boxes.count, box_cost(p));
  }
  return bins;
}

Tensor ps_roi_align(const Tensor& input, const Tensor& boxes, const Sizes& output_size,
                    double spatial_scale, int64_t sampling_ratio) {
  RoiCall call = call_for("ps_roi_align", input, boxes, output_size, spatial_scale);
  RoiAlignParams& p = call.params;
  p.sampling_ratio = sampling_ratio;
  p.aligned = true;
  call.check(boxes);
  require(p.channels % bins_of(p) == 0, call.op, "input has ", p.channels,
          " channels, must be a multiple of the bins' number, ", bins_of(p));
  p.channels /= bins_of(p);
  const Tensor bins = call.empty_bins(input, prefers_channels_last(input));
  if (bins.numel() > 0) run(ps_roi_align_stub, p, input, p.boxes.count, box_cost(p));
  return bins;
}

Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& boxes, const Sizes& input_size,
                             double spatial_scale, int64_t sampling_ratio, bool channels_last) {
  RoiCall call = gradient_call("ps_roi_align_backward", grad, boxes, input_size, 5);
  RoiAlignParams& p = call.params;
  check_channels(call, input_size, saturating_product(p.channels, bins_of(p)));
  p.sampling_ratio = sampling_ratio;
  p.aligned = true;
  set_map(call, input_size, spatial_scale);
  call.check(boxes);
  const MapGradient gradient = empty_gradient(call, grad, input_size, channels_last);
  if (gradient.sums.numel() > 0) {
    run(ps_roi_align_backward_stub, p, grad, p.images * bins_of(p),
        saturating_product(p.maps[0].height * p.maps[0].width, p.channels));
  }
  return gradient.result();
}

void check_rotated(const RoiCall& call, const RoiAlignRotatedParams& p, const Tensor& boxes) {
  check_roi_align(call.op, call.maps_name, p.align);
  if (!boxes.is_cuda()) check_rotated_rois(call.op, call.maps_name, p);
}

Tensor roi_align_rotated(const Tensor& input, const Tensor& boxes, const Sizes& output_size,
                         double spatial_scale, int64_t sampling_ratio, bool aligned, bool clockwise,
                         bool degrees) {
  RoiCall call = call_for("roi_align_rotated", input, boxes, output_size, spatial_scale, 6);
  call.params.sampling_ratio = sampling_ratio;
  call.params.aligned = aligned;
  check_rotated(call, {call.params, clockwise, degrees}, boxes);
  const Tensor bins = call.empty_bins(input, prefers_channels_last(input));
  if (bins.numel() > 0) {
    prefer_adjacent_channels(call, input);
    run(roi_align_rotated_stub, {call.params, clockwise, degrees}, input, call.params.boxes.count,
        box_cost(call.params));
  }
  return bins;
}

Tensor roi_align_rotated_backward(const Tensor& grad, const Tensor& boxes, const Sizes& input_size,
                                  double spatial_scale, int64_t sampling_ratio, bool aligned,
                                  bool clockwise, bool degrees, bool channels_last) {
  RoiCall call = gradient_call("roi_align_rotated_backward", grad, boxes, input_size, 6);
  RoiAlignParams& p = call.params;
  check_channels(call, input_size, p.channels);
  p.sampling_ratio = sampling_ratio;
  p.aligned = aligned;
  set_map(call, input_size, spatial_scale);
  check_rotated(call, {p, clockwise, degrees}, boxes);
  // Kernels of the CPU add channels side by side.
  const bool is_turned = !grad.is_cuda() && p.channels >= kFewChannels;
  const MapGradient gradient = empty_gradient(call, grad, input_size, channels_last, is_turned);
  if (gradient.sums.numel() > 0) {
    run(roi_align_rotated_backward_stub, {p, clockwise, degrees}, grad,
        p.images * channel_blocks(p),
        saturating_product(p.maps[0].height * p.maps[0].width, kChannelBlock));
  }
  return gradient.result();
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("roi_pool", TORCH_BOX(&visops::roi_pool));
  m.impl("roi_pool_backward", TORCH_BOX(&visops::roi_pool_backward));
  m.impl("roi_pool_at", TORCH_BOX(&visops::roi_pool_at));
  m.impl("ps_roi_align", TORCH_BOX(&visops::ps_roi_align));
  m.impl("ps_roi_align_backward", TORCH_BOX(&visops::ps_roi_align_backward));
  m.impl("roi_align_rotated", TORCH_BOX(&visops::roi_align_rotated));
  m.impl("roi_align_rotated_backward", TORCH_BOX(&visops::roi_align_rotated_backward));
}
