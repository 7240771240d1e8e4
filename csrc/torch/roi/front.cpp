#include "torch/roi/front.h"

#include "core/check.h"

namespace visops {

RoiMap roi_map(const Tensor& t, double scale) {
  return {const_cast<void*>(t.const_data_ptr()),
          t.size(2),
          t.size(3),
          t.stride(0),
          t.stride(1),
          t.stride(2),
          t.stride(3),
          scale};
}

void check_four_dimensions(const char* op, const std::string& name, const Tensor& tensor) {
  require(tensor.dim() == 4, op, name, " has shape ", shape_text(tensor), ", must be [N, C, H, W]");
}

void check_input_size(const char* op, const std::vector<int64_t>& input_size) {
  require(input_size.size() == 4, op, "input_size is ", shape_text(input_size),
          ", must have four numbers");
}

int64_t box_cost(const RoiAlignParams& p) {
  return saturating_product(saturating_product(p.bins_y, p.bins_x), 4 * p.channels);
}

RoiCall call_on_map(const char* op, const Tensor& input, const Tensor& boxes, int64_t columns,
                    double scale) {
  RoiCall call = {op, "input"};
  call.add_features("input", input, scale);
  call.set_boxes(boxes, columns, "input", input);
  return call;
}

RoiCall call_for_gradient(const char* op, const Tensor& grad, const Tensor& boxes, int64_t columns,
                          int64_t images) {
  RoiCall call = {op, "grad"};
  check_four_dimensions(op, "grad", grad);
  call.params.dtype = dtype_of(op, "grad", grad);
  call.params.images = images;
  call.params.channels = grad.size(1);
  call.set_boxes(boxes, columns, "grad", grad);
  call.set_grad(grad);
  return call;
}

namespace {

RoiBoxes roi_boxes(const char* op, const Tensor& boxes, int64_t columns) {
  require(boxes.dim() == 2 && boxes.size(1) == columns, op, "boxes has shape ", shape_text(boxes),
          ", must be [K, ", columns, "]");
  return {boxes.const_data_ptr(), dtype_of(op, "boxes", boxes), boxes.size(0), boxes.stride(0),
          boxes.stride(1)};
}

// Itself where pixels of a row or channels of a pixel are adjacent, else a contiguous copy.
Tensor with_adjacent_elements(const Tensor& features) {
  const bool is_adjacent = features.stride(3) == 1 || features.stride(1) == 1;
  return is_adjacent ? features : torch::stable::contiguous(features);
}

}  // namespace

void RoiCall::add_features(const std::string& name, const Tensor& features, double scale) {
  RoiAlignParams& p = params;
  check_four_dimensions(op, name, features);
  const DType dtype = dtype_of(op, name.c_str(), features);
  if (p.levels == 0) {
    p.dtype = dtype;
    p.images = features.size(0);
    p.channels = features.size(1);
  }
  require(dtype == p.dtype, op, name, " has dtype ", dtype_name(dtype), ", the first level has ",
          dtype_name(p.dtype));
  require(features.size(0) == p.images && features.size(1) == p.channels, op, name, " has shape ",
          shape_text(features), ", must begin with [", p.images, ", ", p.channels, "]");
  held.insert(held.begin() + p.levels, with_adjacent_elements(features));
  p.maps[p.levels] = roi_map(held[p.levels], scale);
  ++p.levels;
}

Tensor RoiCall::add_gradient(const Tensor& like, int64_t height, int64_t width, double scale,
                             bool channels_last) {
  RoiAlignParams& p = params;
  const Tensor gradient = empty_tensor(op, "gradient", like, {p.images, p.channels, height, width},
                                       p.dtype, channels_last);
  held.push_back(gradient);
  p.maps[p.levels++] = roi_map(gradient, scale);
  return gradient;
}

void RoiCall::set_boxes(const Tensor& boxes, int64_t columns, const char* reference_name,
                        const Tensor& reference) {
  params.boxes = roi_boxes(op, boxes, columns);
  check_same_device(op, reference_name, reference, "boxes", boxes);
}

void RoiCall::set_output_size(const std::vector<int64_t>& output_size) {
  require(output_size.size() == 2, op, "output_size is ", shape_text(output_size),
          ", must have two numbers");
  params.bins_y = output_size[0];
  params.bins_x = output_size[1];
}

void RoiCall::set_grad(const Tensor& grad) {
  RoiAlignParams& p = params;
  check_four_dimensions(op, "grad", grad);
  const std::vector<int64_t> shape = {p.boxes.count, p.channels, grad.size(2), grad.size(3)};
  require(grad.size(0) == shape[0] && grad.size(1) == shape[1], op, "grad has shape ",
          shape_text(grad), ", must be ", shape_text(shape));
  const DType dtype = dtype_of(op, "grad", grad);
  require(dtype == p.dtype && is_floating(dtype), op, "grad has dtype ", dtype_name(dtype),
          ", must be ", is_floating(p.dtype) ? dtype_name(p.dtype) : "a floating type");
  p.bins = const_cast<void*>(grad.const_data_ptr());
  p.bins_y = grad.size(2);
  p.bins_x = grad.size(3);
  p.roi_stride = grad.stride(0);
  p.channel_stride = grad.stride(1);
  p.bin_row_stride = grad.stride(2);
  p.bin_column_stride = grad.stride(3);
}

namespace {

void take_strides(RoiAlignParams& p, const Tensor& index) {
  p.index_roi_stride = index.stride(0);
  p.index_channel_stride = index.stride(1);
  p.index_row_stride = index.stride(2);
  p.index_column_stride = index.stride(3);
}

}  // namespace

Tensor RoiCall::empty_index(const Tensor& like, DType dtype, bool channels_last) {
  RoiAlignParams& p = params;
  const Tensor index = empty_tensor(
      op, "index", like, {p.boxes.count, p.channels, p.bins_y, p.bins_x}, dtype, channels_last);
  take_strides(p, index);
  return index;
}

void RoiCall::set_index(const Tensor& index, DType dtype, const Tensor& reference) {
  RoiAlignParams& p = params;
  check_same_device(op, maps_name, reference, "index", index);
  const std::vector<int64_t> shape = {p.boxes.count, p.channels, p.bins_y, p.bins_x};
  require(index.sizes().equals(shape), op, "index has shape ", shape_text(index), ", must be ",
          shape_text(shape));
  const DType given = dtype_of(op, "index", index);
  require(given == dtype, op, "index has dtype ", dtype_name(given), ", must be ",
          dtype_name(dtype));
  take_strides(p, index);
}

Tensor RoiCall::empty_boxes_gradient(const Tensor& boxes) {
  RoiAlignParams& p = params;
  require(is_floating(p.boxes.dtype), op, "boxes has dtype ", dtype_name(p.boxes.dtype),
          ", must be a floating type to have a gradient");
  const Tensor gradient = empty_tensor(op, "gradient", boxes, {p.boxes.count, 5}, p.boxes.dtype);
  p.grad_boxes = gradient.mutable_data_ptr();
  p.grad_boxes_dtype = p.boxes.dtype;
  return gradient;
}

void RoiCall::gather_channels() {
  const RoiAlignParams& p = params;
  int64_t pixels = 0;
  for (int64_t level = 0; level < p.levels; ++level) {
    pixels += p.images * p.maps[level].height * p.maps[level].width;
  }
  const int64_t bins = saturating_product(saturating_product(p.bins_y, p.bins_x), p.boxes.count);
  if (saturating_product(bins, 4) <= pixels) return;
  for (int64_t level = 0; level < params.levels; ++level) {
    RoiMap& map = params.maps[level];
    if (map.channel_stride == 1) continue;
    held.push_back(
        torch::stable::contiguous(held[level], torch::headeronly::MemoryFormat::ChannelsLast));
    map = roi_map(held.back(), map.scale);
  }
}

void RoiCall::check(const Tensor& boxes) const {
  check_roi_align(op, maps_name, params);
  if (!boxes.is_cuda()) check_rois(op, maps_name, params);
}

Tensor RoiCall::empty_bins(const Tensor& like, bool channels_last) {
  RoiAlignParams& p = params;
  const std::vector<int64_t> shape = {p.boxes.count, p.channels, p.bins_y, p.bins_x};
  int64_t bytes = element_size(p.dtype);
  for (const int64_t size : shape) bytes = saturating_product(bytes, size);
  require(bytes < std::numeric_limits<int64_t>::max(), op, "result of shape ", shape_text(shape),
          " can't be allocated on ", device_text(like), ": not enough memory");
  const Tensor bins = empty_tensor(op, "result", like, shape, p.dtype, channels_last);
  p.bins = bins.mutable_data_ptr();
  p.roi_stride = bins.stride(0);
  p.channel_stride = bins.stride(1);
  p.bin_row_stride = bins.stride(2);
  p.bin_column_stride = bins.stride(3);
  return bins;
}

}  // namespace visops
