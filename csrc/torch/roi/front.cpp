#include "torch/roi/front.h"

#include "core/check.h"

namespace visops {
namespace {

void set_boxes(RoiCall& call, const BoxesArgument& boxes, const char* reference_name,
               const Tensor& reference) {
  const Tensor& t = boxes.tensor;
  require(t.dim() == 2 && t.size(1) == boxes.columns, call.op, "boxes has shape ", shape_text(t),
          ", must be [K, ", boxes.columns, "]");
  call.params.boxes = {t.const_data_ptr(), dtype_of(call.op, "boxes", t), t.size(0), t.stride(0),
                       t.stride(1)};
  check_same_device(call.op, reference_name, reference, "boxes", t);
}

void set_sampling(RoiCall& call, const RoiSampling& sampling) {
  call.params.sampling_ratio = sampling.ratio;
  call.params.aligned = sampling.aligned;
  call.params.level_rule = sampling.level_rule;
}

void set_grad(RoiCall& call, const Tensor& grad) {
  RoiAlignParams& p = call.params;
  check_four_dimensions(call.op, "grad", grad);
  const Sizes shape = {p.boxes.count, p.channels, grad.size(2), grad.size(3)};
  require(grad.size(0) == shape[0] && grad.size(1) == shape[1], call.op, "grad has shape ",
          shape_text(grad), ", must be ", shape_text(shape));
  const DType dtype = dtype_of(call.op, "grad", grad);
  require(dtype == p.dtype && is_floating(dtype), call.op, "grad has dtype ", dtype_name(dtype),
          ", must be ", is_floating(p.dtype) ? dtype_name(p.dtype) : "a floating type");
  p.bins_y = grad.size(2);
  p.bins_x = grad.size(3);
  p = with_bins(p, grad);
}

// The last step: all but rotated boxes is checked.
void check(const RoiCall& call, const char* maps_name, const BoxesArgument& boxes) {
  check_roi_align(call.op, maps_name, call.params);
  if (boxes.columns == 5 && !boxes.tensor.is_cuda()) check_rois(call.op, maps_name, call.params);
}

// Itself where pixels of a row or channels of a pixel are adjacent, else a contiguous copy.
Tensor with_adjacent_elements(const Tensor& map) {
  const bool is_adjacent = map.stride(3) == 1 || map.stride(1) == 1;
  return is_adjacent ? map : torch::stable::contiguous(map);
}

void add_map(RoiCall& call, const std::string& name, const Tensor& map, double scale) {
  RoiAlignParams& p = call.params;
  check_four_dimensions(call.op, name, map);
  const DType dtype = dtype_of(call.op, name.c_str(), map);
  if (p.levels == 0) {
    p.dtype = dtype;
    p.images = map.size(0);
    p.channels = map.size(1);
  }
  require(dtype == p.dtype, call.op, name, " has dtype ", dtype_name(dtype),
          ", the first level has ", dtype_name(p.dtype));
  require(map.size(0) == p.images && map.size(1) == p.channels, call.op, name, " has shape ",
          shape_text(map), ", must begin with [", p.images, ", ", p.channels, "]");
  call.held.push_back(with_adjacent_elements(map));
  p.maps[p.levels].scale = scale;
  p = with_map(p, p.levels, call.held.back());
  ++p.levels;
}

RoiCall with_maps(const char* op, const MapsArgument& maps, const BoxesArgument& boxes,
                  const RoiSampling& sampling) {
  RoiCall call = {op, {}, {}};
  set_sampling(call, sampling);
  const auto name_of = [&](size_t i) {
    return maps.is_list ? maps.name + ("[" + std::to_string(i) + "]") : maps.name;
  };
  for (size_t i = 0; i < maps.tensors.size(); ++i) {
    check_same_device(op, name_of(0).c_str(), maps.tensors[0], name_of(i).c_str(), maps.tensors[i]);
    add_map(call, name_of(i), maps.tensors[i], sampling.scales[i]);
  }
  set_boxes(call, boxes, name_of(0).c_str(), maps.tensors[0]);
  return call;
}

Sizes shape_of_bins(const RoiAlignParams& p) {
  return {p.boxes.count, p.channels, p.bins_y, p.bins_x};
}

}  // namespace

void check_sample_grid(const char* op, int64_t ratio, const char* what) {
  constexpr int64_t kMost = 256;
  require(ratio <= kMost, op, "sampling_ratio is ", ratio, ", must be at most ", kMost, " for ",
          what);
}

RoiCall call_on_maps(const char* op, const MapsArgument& maps, const BoxesArgument& boxes,
                     const RoiSampling& sampling, const Sizes& output_size) {
  RoiCall call = with_maps(op, maps, boxes, sampling);
  require(output_size.size() == 2, op, "output_size is ", shape_text(output_size),
          ", must have two numbers");
  call.params.bins_y = output_size[0];
  call.params.bins_x = output_size[1];
  check(call, maps.name, boxes);
  return call;
}

RoiCall call_on_maps_and_grad(const char* op, const MapsArgument& maps, const BoxesArgument& boxes,
                              const RoiSampling& sampling, const Tensor& grad) {
  RoiCall call = with_maps(op, maps, boxes, sampling);
  set_grad(call, grad);
  check(call, maps.name, boxes);
  return call;
}

RoiCall call_for_maps(const char* op, const Tensor& grad, const BoxesArgument& boxes,
                      const RoiSampling& sampling, int64_t images,
                      const std::vector<std::pair<int64_t, int64_t>>& sizes) {
  RoiCall call = {op, {}, {}};
  RoiAlignParams& p = call.params;
  set_sampling(call, sampling);
  check_four_dimensions(op, "grad", grad);
  p.dtype = dtype_of(op, "grad", grad);
  p.images = images;
  p.channels = grad.size(1);
  set_boxes(call, boxes, "grad", grad);
  set_grad(call, grad);
  for (const auto& [height, width] : sizes) {
    p.maps[p.levels] = {nullptr, height, width, 0, 0, 0, 0, sampling.scales[p.levels]};
    ++p.levels;
  }
  check(call, "grad", boxes);
  return call;
}

RoiCall call_for_map(const char* op, const Tensor& grad, const BoxesArgument& boxes,
                     const RoiSampling& sampling, const Sizes& input_size) {
  require(input_size.size() == 4, op, "input_size is ", shape_text(input_size),
          ", must have four numbers");
  return call_for_maps(op, grad, boxes, sampling, input_size[0], {{input_size[2], input_size[3]}});
}

void check_channels(const char* op, const Sizes& input_size, int64_t channels) {
  require(input_size[1] == channels, op, "input_size is ", shape_text(input_size), ", must have ",
          channels, " channels for this grad");
}

Tensor empty_bins(const RoiCall& call, const Tensor& like) {
  const RoiAlignParams& p = call.params;
  const Sizes shape = shape_of_bins(p);
  int64_t bytes = element_size(p.dtype);
  for (const int64_t size : shape) bytes = saturating_product(bytes, size);
  require(bytes < std::numeric_limits<int64_t>::max(), call.op, "result of shape ",
          shape_text(shape), " can't be allocated on ", device_text(like), ": not enough memory");
  return empty_tensor(call.op, "result", like, shape, p.dtype, prefers_channels_last(like));
}

Tensor empty_index(const RoiCall& call, const Tensor& like, DType dtype) {
  return empty_tensor(call.op, "index", like, shape_of_bins(call.params), dtype,
                      prefers_channels_last(like));
}

Tensor empty_boxes_gradient(const RoiCall& call, const Tensor& boxes) {
  const DType dtype = call.params.boxes.dtype;
  require(is_floating(dtype), call.op, "boxes has dtype ", dtype_name(dtype),
          ", must be a floating type to have a gradient");
  return empty_tensor(call.op, "gradient", boxes, {call.params.boxes.count, 5}, dtype);
}

void check_index(const RoiCall& call, const Tensor& index, DType dtype, const char* reference_name,
                 const Tensor& reference) {
  check_same_device(call.op, reference_name, reference, "index", index);
  const Sizes shape = shape_of_bins(call.params);
  require(index.sizes().equals(shape), call.op, "index has shape ", shape_text(index), ", must be ",
          shape_text(shape));
  const DType given = dtype_of(call.op, "index", index);
  require(given == dtype, call.op, "index has dtype ", dtype_name(given), ", must be ",
          dtype_name(dtype));
}

RoiAlignParams with_bins(RoiAlignParams p, const Tensor& bins) {
  p.bins = const_cast<void*>(bins.const_data_ptr());
  p.roi_stride = bins.stride(0);
  p.channel_stride = bins.stride(1);
  p.bin_row_stride = bins.stride(2);
  p.bin_column_stride = bins.stride(3);
  return p;
}

RoiAlignParams with_index_strides(RoiAlignParams p, const Tensor& index) {
  p.index_roi_stride = index.stride(0);
  p.index_channel_stride = index.stride(1);
  p.index_row_stride = index.stride(2);
  p.index_column_stride = index.stride(3);
  return p;
}

RoiAlignParams with_index(RoiAlignParams p, const Tensor& index) {
  p.index = static_cast<int64_t*>(const_cast<void*>(index.const_data_ptr()));
  return with_index_strides(p, index);
}

RoiAlignParams with_map(RoiAlignParams p, int64_t level, const Tensor& map) {
  p.maps[level] = {const_cast<void*>(map.const_data_ptr()),
                   map.size(2),
                   map.size(3),
                   map.stride(0),
                   map.stride(1),
                   map.stride(2),
                   map.stride(3),
                   p.maps[level].scale};
  return p;
}

RoiAlignParams with_boxes_gradient(RoiAlignParams p, const Tensor& gradient) {
  p.grad_boxes = gradient.mutable_data_ptr();
  p.grad_boxes_dtype = p.boxes.dtype;
  return p;
}

void gather_channels(RoiCall& call) {
  RoiAlignParams& p = call.params;
  int64_t pixels = 0;
  for (int64_t level = 0; level < p.levels; ++level) {
    pixels += p.images * p.maps[level].height * p.maps[level].width;
  }
  const int64_t bins = saturating_product(saturating_product(p.bins_y, p.bins_x), p.boxes.count);
  if (saturating_product(bins, 4) <= pixels) return;
  for (int64_t level = 0; level < p.levels; ++level) {
    if (p.maps[level].channel_stride == 1) continue;
    call.held[level] =
        torch::stable::contiguous(call.held[level], torch::headeronly::MemoryFormat::ChannelsLast);
    p = with_map(p, level, call.held[level]);
  }
}

void check_four_dimensions(const char* op, const std::string& name, const Tensor& tensor) {
  require(tensor.dim() == 4, op, name, " has shape ", shape_text(tensor), ", must be [N, C, H, W]");
}

void check_images(const char* op, const char* name, const Tensor& images) {
  require(images.dim() == 4, op, name, " has shape ", shape_text(images),
          ", must have four dimensions, [B, C, H, W]");
}

Strides strides_of_images(const Tensor& t) {
  return {t.stride(0), t.stride(1), t.stride(2), t.stride(3)};
}

CropBoxes crop_boxes(const char* op, const Tensor& boxes) {
  require(boxes.dim() == 2 && boxes.size(1) == 5, op, "boxes has shape ", shape_text(boxes),
          ", must be [K, 5]");
  require(boxes.size(0) <= 2147483647, op, "boxes has shape ", shape_text(boxes),
          ", at most 2147483647 boxes are supported");
  return {boxes.const_data_ptr(), dtype_of(op, "boxes", boxes), boxes.size(0), boxes.stride(0),
          boxes.stride(1)};
}

Interpolation parse_crop_interpolation(const char* op, const std::string& name) {
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bicubic") return Interpolation::kBicubic;
  fail(op, "interpolation is '", name, "', must be 'nearest', 'bilinear' or 'bicubic'");
}

Tensor empty_maps(const char* op, const Tensor& like, int64_t count) {
  const auto bytes = static_cast<int64_t>(sizeof(CropMap));
  return empty_tensor(op, "scratch", like, {count, bytes}, DType::kUInt8);
}

}  // namespace visops
