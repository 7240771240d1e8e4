// Suppression of host memory: candidates are sorted, suppressed by the CPU kernel, and what is kept
// is listed here.
#include <algorithm>

#include "torch/suppression/nms_candidates.h"

namespace visops {
namespace {

constexpr int64_t kBoxCost = 64;  // elements' worth of work in suppressing a box

// Positions in listed that are kept, image by image.
struct Kept {
  Candidates candidates;
  std::vector<int64_t> positions;
  std::vector<int64_t> image_begin;
};

Kept suppress(const NmsCall& call) {
  Kept kept;
  kept.candidates = list_candidates(call, CandidateOrder::kByScore);
  const Candidates& found = kept.candidates;
  kept.image_begin.assign(1, 0);
  NmsParams p = call.params;
  found.give_to(&p);
  const Tensor flags = empty_tensor(call.op, "scratch", call.boxes, {p.count}, DType::kUInt8);
  const Tensor scratch =
      empty_tensor(call.op, "scratch", call.boxes, {nms_cpu_scratch_bytes(p)}, DType::kUInt8);
  p.kept = static_cast<uint8_t*>(flags.mutable_data_ptr());
  p.scratch = scratch.mutable_data_ptr();
  run_on_cpu(p.rotated ? nms_rotated_stub : nms_stub, p, p.count, kBoxCost);
  for (int64_t image = 0; image < call.images; ++image) {
    int64_t left = p.max_output < 0 ? p.count : p.max_output;
    for (int64_t i = found.image_begin[image]; i < found.image_begin[image + 1] && left > 0; ++i) {
      if (p.kept[found.place.empty() ? i : found.place[i]] == 0) continue;
      kept.positions.push_back(i);
      --left;
    }
    kept.image_begin.push_back(static_cast<int64_t>(kept.positions.size()));
  }
  return kept;
}

}  // namespace

Tensor nms_on_host(const NmsCall& call) {
  const Kept kept = suppress(call);
  const std::vector<int64_t> shape = call.result_shape(static_cast<int64_t>(kept.positions.size()));
  const Tensor result = empty_tensor(call.op, "result", call.boxes, shape, DType::kInt64);
  auto* out = static_cast<int64_t*>(result.mutable_data_ptr());
  for (const int64_t position : kept.positions) {
    out = call.write_row(kept.candidates.listed[position], out);
  }
  return result;
}

PaddedResult nms_padded_on_host(const NmsCall& call) {
  const Kept kept = suppress(call);
  const int64_t most = call.params.max_output;
  const PaddedResult result = {
      empty_tensor(call.op, "indices", call.boxes, {call.images, most}, DType::kInt64),
      empty_tensor(call.op, "count", call.boxes, {call.images}, DType::kInt64)};
  auto* indices = static_cast<int64_t*>(result.indices.mutable_data_ptr());
  auto* count = static_cast<int64_t*>(result.count.mutable_data_ptr());
  for (int64_t image = 0; image < call.images; ++image) {
    const int64_t begin = kept.image_begin[image], end = kept.image_begin[image + 1];
    count[image] = end - begin;
    int64_t* row = indices + image * most;
    for (int64_t i = begin; i < end; ++i) {
      *row++ = kept.candidates.listed[kept.positions[i]] - image * call.per_image;
    }
    std::fill(row, indices + (image + 1) * most, int64_t{-1});
  }
  return result;
}

}  // namespace visops
