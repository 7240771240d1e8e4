// The torch fronts of masks as runs.
#include "core/masks/rle.h"

#include "core/masks/components.h"
#include "core/masks/packed.h"
#include "torch/masks/front.h"
#include "torch/operators.h"
#include "torch/register.h"

namespace visops {
namespace {

// Where the kernel's runs go.
struct RunsResult {
  const Tensor& masks;
  const Tensor& offsets;
  std::optional<Tensor> ends;

  static int32_t* make_ends(void* context) {
    auto* result = static_cast<RunsResult*>(context);
    const int64_t count = result->offsets.numel() - 1;
    Tensor offsets = result->offsets;
    const Tensor last = torch::stable::narrow(offsets, 0, count, 1);
    // The CPU's kernels have written it.
    const Tensor total = runs_cuda_kernels(result->masks) ? on_host(last) : last;
    result->ends =
        make_result("masks_to_runs", result->masks,
                    {*static_cast<const int64_t*>(total.const_data_ptr())}, DType::kInt32);
    return data_of<int32_t>(*result->ends);
  }
};

// One run of no pixels for each mask.
std::tuple<Tensor, Tensor> runs_of_nothing(const char* op, const Tensor& masks, int64_t count) {
  return {make_zeros(op, masks, {count}, DType::kInt32), flat(numbers(masks, 1, count + 1))};
}

// `width` is -1 for masks [N, H, W] as pixels; else they are bits [N, H, words] of that width.
std::tuple<Tensor, Tensor> masks_to_runs(const Tensor& masks, int64_t width) {
  constexpr const char* op = "masks_to_runs";
  const DType dtype = dtype_of(op, "masks", masks);
  require(masks.dim() == 3, op, "masks has shape ", shape_text(masks), ", must be [N, H, W]");
  const bool is_packed = width != -1;
  if (is_packed) {
    require(dtype == DType::kInt64, op, "masks has dtype ", dtype_name(dtype),
            ", must be int64, as pack_masks returns, where width is given");
    require(width >= 0 && words_of(width) == masks.size(2), op, "width is ", width,
            ", masks has shape ", shape_text(masks), ": its last dimension must be ",
            "ceil(width / 64)");
    check_mask_size(op, "masks", masks.size(1), width);
  } else {
    require(dtype == DType::kBool || dtype == DType::kUInt8, op, "masks has dtype ",
            dtype_name(dtype), ", must be bool or uint8");
  }
  const MaskBatch batch = mask_batch(op, "masks", masks);
  if (batch.is_empty()) return runs_of_nothing(op, masks, batch.count);
  const Tensor offsets = make_result(op, masks, {batch.count + 1}, DType::kInt64);
  RunsResult result = {masks, offsets, std::nullopt};
  MasksToRunsParams p = {};
  set_sizes(batch, &p);
  Tensor bits = batch.masks;
  if (is_packed) {
    p.width = width;
  } else if (runs_cuda_kernels(masks)) {
    bits = pack_batch(op, batch);
  } else {
    p.pixels = static_cast<const uint8_t*>(bits.const_data_ptr());
  }
  if (p.pixels == nullptr) p.bits = static_cast<const uint64_t*>(bits.const_data_ptr());
  p.offsets = data_of<int64_t>(offsets);
  p.make_ends = RunsResult::make_ends;
  p.context = &result;
  run(masks_to_runs_stub, op, p, masks);
  return {*result.ends, offsets};
}

// Kernels follow offsets without looking at them.
void check_offsets(const char* op, const Tensor& offsets, int64_t runs) {
  const Tensor host = torch::stable::contiguous(offsets);
  const auto* values = static_cast<const int64_t*>(host.const_data_ptr());
  int64_t before = 0;
  for (int64_t i = 0; i < offsets.numel(); ++i) {
    const bool is_last = i == offsets.numel() - 1;
    require(values[i] >= before && (is_last ? values[i] == runs : values[i] <= runs) &&
                (i > 0 || values[i] == 0),
            op, "offsets[", i, "] is ", values[i], ", must rise from 0 to ends' length, ", runs);
    before = values[i];
  }
}

Tensor runs_to_bits(const Tensor& ends, const Tensor& offsets, std::vector<int64_t> size) {
  constexpr const char* op = "runs_to_bits";
  const DType dtype = dtype_of(op, "ends", ends), offset_dtype = dtype_of(op, "offsets", offsets);
  require(dtype == DType::kInt32, op, "ends has dtype ", dtype_name(dtype), ", must be int32");
  require(ends.dim() == 1, op, "ends has shape ", shape_text(ends), ", must be [runs]");
  require(offset_dtype == DType::kInt64, op, "offsets has dtype ", dtype_name(offset_dtype),
          ", must be int64");
  require(offsets.dim() == 1 && offsets.numel() > 0, op, "offsets has shape ", shape_text(offsets),
          ", must be [N + 1]");
  require(size.size() == 2, op, "size is ", shape_text(size), ", must be (height, width)");
  require(size[0] >= 0 && size[1] >= 0, op, "size is ", shape_text(size), ", must be >= 0");
  check_same_device(op, "ends", ends, "offsets", offsets);
  check_mask_size(op, "masks", size[0], size[1]);
  if (!offsets.is_cuda()) check_offsets(op, offsets, ends.numel());
  RunsToBitsParams p = {};
  p.runs = ends.numel();
  p.count = offsets.numel() - 1;
  p.height = size[0];
  p.width = size[1];
  const Tensor bits = make_result(op, ends, {p.count, p.height, words_of(p.width)}, DType::kInt64);
  if (bits.numel() == 0) return bits;
  const Tensor plain_ends = torch::stable::contiguous(ends);
  const Tensor plain_offsets = torch::stable::contiguous(offsets);
  p.ends = static_cast<const int32_t*>(plain_ends.const_data_ptr());
  p.offsets = static_cast<const int64_t*>(plain_offsets.const_data_ptr());
  p.bits = static_cast<uint64_t*>(bits.mutable_data_ptr());
  run(runs_to_bits_stub, op, p, ends);
  return bits;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("masks_to_runs", VISOPS_BOX(&visops::masks_to_runs));
  m.impl("runs_to_bits", VISOPS_BOX(&visops::runs_to_bits));
}
