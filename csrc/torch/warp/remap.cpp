// The torch front of maps: tensors -> RemapParams, allocation, and the kernel.
#include "core/warp/remap.h"

#include <algorithm>

#include "core/check.h"
#include "core/images/image_front.h"
#include "core/warp/affine.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

constexpr const char* kOp = "remap";
constexpr const char* kMaps[] = {"map_x", "map_y"};

void check_batch(const char* name, const Tensor& tensor, const Tensor& images) {
  require(tensor.size(0) == 1 || tensor.size(0) == images.size(0), kOp, name, " has batch ",
          tensor.size(0), ", must be 1 or that of the images, ", images.size(0));
}

// An axis of the map in the type that positions are computed in, with the numbers of a sample
// adjacent.
Tensor read_map(int axis, const Tensor& images, const Tensor& map, RemapParams& p) {
  const char* const name = kMaps[axis];
  check_same_device(kOp, "images", images, name, map);
  require(map.dim() == 3, kOp, name, " has shape ", shape_text(map),
          ", must be [B, h, w] or [1, h, w]");
  require(is_floating(dtype_of(kOp, name, map)), kOp, name, " has dtype ",
          dtype_text(map.scalar_type()), ", must be a floating type");
  check_batch(name, map, images);
  if (axis == 1) {
    require(map.size(1) == p.rows && map.size(2) == p.columns, kOp, name, " has shape ",
            shape_text(map), ", must be of map_x's height and width, ", p.rows, " x ", p.columns);
  }
  p.rows = map.size(1);
  p.columns = map.size(2);
  const DType wanted = p.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Tensor numbers = torch::stable::to(map, scalar_type_of(wanted));
  const bool adjacent = numbers.stride(2) == 1 && numbers.stride(1) == p.columns;
  const Tensor read = adjacent ? numbers : torch::stable::contiguous(numbers);
  p.map_stride[axis] = map.size(0) == 1 ? 0 : read.stride(0);
  p.map[axis] = read.const_data_ptr();
  return read;
}

Tensor read_matrix(const Tensor& images, const Tensor& matrix, RemapParams& p) {
  check_same_device(kOp, "images", images, "matrix", matrix);
  require(matrix.dim() == 3 && matrix.size(1) == 3 && matrix.size(2) == 3, kOp, "matrix has shape ",
          shape_text(matrix), ", must be [B, 3, 3] or [1, 3, 3]");
  require(matrix.scalar_type() == ScalarType::Double, kOp, "matrix has dtype ",
          dtype_text(matrix.scalar_type()), ", must be float64");
  check_batch("matrix", matrix, images);
  p.matrix_stride = matrix.size(0) == 1 ? 0 : 9;
  return torch::stable::contiguous(matrix);
}

Tensor remap(const Tensor& images, const Tensor& map_x, const Tensor& map_y,
             const std::vector<int64_t>& size, const std::optional<Tensor>& matrix,
             const std::string& grid, bool relative, const std::string& mode,
             const std::string& padding_mode, const std::vector<double>& fill, bool to_float) {
  require(images.dim() == 4, kOp, "images have shape ", shape_text(images),
          ", must be [B, C, H, W]");
  require(size.size() == 2, kOp, "size has ", size.size(), " values, must be (height, width)");
  RemapParams p = {};
  p.dtype = dtype_of(kOp, "images", images);
  p.batch = images.size(0);
  p.channels = images.size(1);
  p.height = images.size(2);
  p.width = images.size(3);
  p.image_stride = {images.stride(0), images.stride(1), images.stride(2), images.stride(3)};
  p.output_height = size[0];
  p.output_width = size[1];
  p.to_float = to_float;
  p.grid = parse_grid(kOp, grid);
  p.relative = relative;
  p.mode = parse_interpolation(kOp, mode);
  p.padding = parse_padding(kOp, padding_mode);
  p.fill_count = static_cast<int64_t>(fill.size());
  const Tensor x = read_map(0, images, map_x, p);
  const Tensor y = read_map(1, images, map_y, p);
  std::optional<Tensor> rows;
  if (matrix.has_value()) rows = read_matrix(images, *matrix, p);
  check_remap(kOp, p);
  check_fill(kOp, p.dtype, fill.data(), p.fill_count);
  const DType dtype = to_float ? DType::kFloat32 : p.dtype;
  const Tensor output = empty_tensor(kOp, "result", images, {p.batch, p.channels, size[0], size[1]},
                                     dtype, prefers_channels_last(images));
  if (output.numel() == 0) return output;
  p.image = images.const_data_ptr();
  p.output = output.mutable_data_ptr();
  p.output_stride = {output.stride(0), output.stride(1), output.stride(2), output.stride(3)};
  p.matrix = rows.has_value() ? static_cast<const double*>(rows->const_data_ptr()) : nullptr;
  for_each_fill_group(p, element_size(dtype), fill.data(), p.fill_count,
                      [&](const RemapParams& group) { run(remap_stub, kOp, group, images); });
  return output;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("remap", VISOPS_BOX(&visops::remap)); }
