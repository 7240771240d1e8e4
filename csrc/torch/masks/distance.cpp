// The torch front of distance transforms.
#include "core/masks/distance.h"

#include "torch/masks/front.h"
#include "torch/register.h"

namespace visops {
namespace {

constexpr const char* kOp = "distance_transform";

DistanceParams params_of(const Tensor& masks, const std::string& metric, int64_t dims,
                         const std::vector<double>& spacing) {
  const DType dtype = dtype_of(kOp, "masks", masks);
  require(dtype == DType::kBool || dtype == DType::kUInt8, kOp, "masks has dtype ",
          dtype_name(dtype), ", must be bool or uint8");
  require(dims == 2 || dims == 3, kOp, "dims is ", dims, ", must be 2 or 3");
  require(masks.dim() >= dims, kOp, "masks has shape ", shape_text(masks), ", must be ",
          dims == 2 ? "[..., H, W]" : "[..., D, H, W]");
  DistanceParams p = {};
  p.dims = dims;
  p.metric = parse_metric(kOp, metric);
  p.depth = dims == 3 ? masks.size(masks.dim() - 3) : 1;
  p.height = masks.size(masks.dim() - 2);
  p.width = masks.size(masks.dim() - 1);
  check_distance(kOp, p, spacing);
  for (double& length : p.spacing) length = 1.0;
  bool is_uniform = true;
  for (size_t axis = 0; axis < spacing.size(); ++axis) {
    p.spacing[3 - spacing.size() + axis] = spacing[axis];
    is_uniform = is_uniform && spacing[axis] == spacing[0];
  }
  p.scale = is_uniform && !spacing.empty() ? spacing[0] : 1.0;
  const int64_t farthest = p.depth * p.depth + p.height * p.height + p.width * p.width;
  p.squares = !is_uniform                                          ? Squares::kFloat64
              : p.metric == Metric::kEuclidean && farthest >= kFar ? Squares::kInt64
                                                                   : Squares::kInt32;
  return p;
}

// The second result is of no elements unless indices are wanted.
std::tuple<Tensor, Tensor> distance_transform(const Tensor& masks, const std::string& metric,
                                              const std::vector<double>& spacing, int64_t dims,
                                              bool return_indices) {
  DistanceParams p = params_of(masks, metric, dims, spacing);
  const Tensor plain = torch::stable::contiguous(masks);
  std::vector<int64_t> sizes(masks.sizes().begin(), masks.sizes().end());
  const Tensor distances = make_result(kOp, masks, sizes, DType::kFloat32);
  if (return_indices) {
    sizes.insert(sizes.end() - dims, dims);
  } else {
    sizes = {0};
  }
  const Tensor indices = make_result(kOp, masks, sizes, DType::kInt32);
  if (masks.numel() == 0) return {distances, indices};
  p.count = masks.numel() / pixels_of(p);
  p.masks = static_cast<const uint8_t*>(plain.const_data_ptr());
  p.distances = static_cast<float*>(distances.mutable_data_ptr());
  if (return_indices) p.indices = static_cast<int32_t*>(indices.mutable_data_ptr());
  run(distance_stub, kOp, p, masks);
  return {distances, indices};
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("distance_transform", VISOPS_BOX(&visops::distance_transform)); }
