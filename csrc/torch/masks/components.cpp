// The torch fronts of connected components: their labels, statistics of labels, small regions.
#include "core/masks/components.h"

#include "torch/masks/front.h"
#include "torch/register.h"

namespace visops {
namespace {

// Labels are only compared with each other and with 0, so a sign changes nothing.
DType label_dtype(const char* op, const Tensor& masks) {
  if (masks.scalar_type() == ScalarType::UInt32) return DType::kInt32;
  if (masks.scalar_type() == ScalarType::UInt64) return DType::kInt64;
  return dtype_of(op, "masks", masks);
}

std::tuple<Tensor, Tensor> connected_components(const Tensor& masks, int64_t connectivity) {
  constexpr const char* op = "connected_components";
  ComponentsParams p = {};
  p.dtype = label_dtype(op, masks);
  require(!is_floating(p.dtype), op, "masks has dtype ", dtype_name(p.dtype),
          ", must be bool or an integer type");
  p.diagonal = parse_connectivity(op, connectivity);
  const MaskBatch batch = mask_batch(op, "masks", masks);
  set_sizes(batch, &p);
  const Tensor labels =
      make_result(op, masks, batch.sizes({batch.height, batch.width}), DType::kInt32);
  if (batch.is_empty()) return {labels, make_zeros(op, masks, batch.leading, DType::kInt32)};
  const Tensor found = make_result(op, masks, batch.leading, DType::kInt32);
  p.masks = batch.masks.const_data_ptr();
  p.labels = static_cast<int32_t*>(labels.mutable_data_ptr());
  p.found = static_cast<int32_t*>(found.mutable_data_ptr());
  run(components_stub, op, p, masks);
  return {labels, found};
}

std::tuple<Tensor, Tensor, Tensor> component_stats(const Tensor& labels, int64_t regions) {
  constexpr const char* op = "component_stats";
  const DType dtype = dtype_of(op, "labels", labels);
  require(dtype == DType::kInt32, op, "labels has dtype ", dtype_name(dtype), ", must be int32");
  require(regions >= 0, op, "regions is ", regions, ", must be >= 0");
  const MaskBatch batch = mask_batch(op, "labels", labels);
  const bool is_empty = batch.is_empty() || regions == 0;
  const auto make = is_empty ? make_zeros : make_result;
  const Tensor areas = make(op, labels, batch.sizes({regions}), DType::kInt64);
  const Tensor boxes = make(op, labels, batch.sizes({regions, 4}), DType::kInt64);
  const Tensor centroids = make(op, labels, batch.sizes({regions, 2}), DType::kFloat64);
  if (is_empty) return {areas, boxes, centroids};
  ComponentStatsParams p = {};
  p.labels = static_cast<const int32_t*>(batch.masks.const_data_ptr());
  set_sizes(batch, &p);
  p.regions = regions;
  p.areas = static_cast<int64_t*>(areas.mutable_data_ptr());
  p.boxes = static_cast<int64_t*>(boxes.mutable_data_ptr());
  p.centroids = static_cast<double*>(centroids.mutable_data_ptr());
  run(component_stats_stub, op, p, labels);
  return {areas, boxes, centroids};
}

std::tuple<Tensor, Tensor> remove_small_regions(const Tensor& masks, int64_t min_area,
                                                const std::string& mode, int64_t connectivity) {
  constexpr const char* op = "remove_small_regions";
  const DType dtype = dtype_of(op, "masks", masks);
  require(dtype == DType::kBool || dtype == DType::kUInt8, op, "masks has dtype ",
          dtype_name(dtype), ", must be bool or uint8");
  require(min_area >= 0, op, "min_area is ", min_area, ", must be >= 0");
  SmallRegionsParams p = {};
  p.min_area = min_area;
  p.holes = parse_region_kind(op, mode);
  p.diagonal = parse_connectivity(op, connectivity);
  const MaskBatch batch = mask_batch(op, "masks", masks);
  set_sizes(batch, &p);
  const Tensor cleaned =
      make_result(op, masks, batch.sizes({batch.height, batch.width}), DType::kBool);
  if (batch.is_empty()) return {cleaned, make_zeros(op, masks, batch.leading, DType::kBool)};
  const Tensor changed = make_result(op, masks, batch.leading, DType::kBool);
  p.masks = static_cast<const uint8_t*>(batch.masks.const_data_ptr());
  p.cleaned = static_cast<uint8_t*>(cleaned.mutable_data_ptr());
  p.changed = static_cast<uint8_t*>(changed.mutable_data_ptr());
  run(small_regions_stub, op, p, masks);
  return {cleaned, changed};
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("connected_components", VISOPS_BOX(&visops::connected_components));
  m.impl("component_stats", VISOPS_BOX(&visops::component_stats));
  m.impl("remove_small_regions", VISOPS_BOX(&visops::remove_small_regions));
}
