// Suppression of device memory: torch's own sorts and selections around the kernel.
#include "core/nms_scratch.h"
#include "ops/nms.h"
#include "ops/torch_operators.h"

namespace visops {
namespace {

Tensor image_of(const Tensor& tensor, int64_t image) {
  return torch::stable::select(tensor, 0, image);
}

// All candidates' numbers, 0, 1, ..., in `rows` rows.
Tensor candidate_numbers(const NmsCall& call, int64_t rows) {
  return numbers(call.boxes, rows, call.candidates() / rows);
}

// Runs the kernel on candidates in `order`, whose scores are `scores`; flags of each in `order`.
Tensor suppress(const NmsCall& call, NmsParams p, const Tensor& scores, const Tensor& order,
                const Tensor& segment) {
  p.count = order.numel();
  p.order = static_cast<const int64_t*>(order.const_data_ptr());
  p.segment = static_cast<const int64_t*>(segment.const_data_ptr());
  p.scores = scores.const_data_ptr();
  const Tensor kept = empty_tensor(call.op, "scratch", call.boxes, {p.count}, DType::kUInt8);
  const Tensor scratch =
      empty_tensor(call.op, "scratch", call.boxes, {nms_cuda_scratch_bytes(p)}, DType::kUInt8);
  p.kept = static_cast<uint8_t*>(kept.mutable_data_ptr());
  p.scratch = scratch.mutable_data_ptr();
  run(p.rotated ? nms_rotated_stub : nms_stub, p, call.boxes, p.count, 1);
  return kept;
}

struct SortedGroups {
  Tensor scores;   // [groups, per_image]
  Tensor indices;  // [groups, per_image] boxes, by falling score
  Tensor order;    // [candidates] the same as candidates
  Tensor kept;     // [candidates] of `order`
};

SortedGroups suppress_groups(const NmsCall& call) {
  const Tensor scores = scores_by_group(call);
  const Tensor indices = sort_last(scores, true).indices;
  const Tensor order = take(candidate_numbers(call, call.images * call.classes), indices);
  const Tensor segment = divide(order, filled(order, {1}, call.per_image));
  return {scores, indices, order, suppress(call, call.params, scores, order, segment)};
}

// `flags` of `order` as flags of the same candidates in another order.
Tensor reorder(const Tensor& flags, const Tensor& order, const Tensor& other) {
  return select(call_for_tensor("aten::index_copy", "", flags, int64_t{0}, order, flags), other);
}

// The first max_output set flags of each row.
Tensor first_flags(const Tensor& flags, int64_t max_output) {
  if (max_output < 0) return flags;
  const Tensor room = filled(flags, {1}, max_output);
  const Tensor fits = call_for_tensor("aten::le", "Tensor", running_sum(flags), room);
  return call_for_tensor("aten::logical_and", "", flags, fits);
}

// Groups by ids, of one image.
Tensor kept_by_ids(const NmsCall& call, const NmsParams& p, const Tensor& scores,
                   const Tensor& ids) {
  const Tensor by_score = sort_last(scores, true).indices;
  const Sorted groups =
      sort_last(select(torch::stable::to(ids, ScalarType::Long), by_score), false);
  const Tensor order = select(by_score, groups.indices);
  const Tensor kept = suppress(call, p, scores, order, groups.values);
  return masked(by_score, first_flags(reorder(kept, order, by_score), p.max_output));
}

// ... of a batch, image by image: an id means another group in each.
Tensor kept_of_batch(const NmsCall& call) {
  const Tensor numbers = candidate_numbers(call, call.images);
  const int64_t bytes = call.params.image_stride * element_size(call.params.dtype);
  NmsParams p = call.params;
  std::vector<Tensor> parts;
  for (int64_t image = 0; image < call.images; ++image) {
    p.boxes = static_cast<const char*>(call.params.boxes) + image * bytes;
    const Tensor scores = torch::stable::contiguous(image_of(call.scores, image));
    const Tensor kept = kept_by_ids(call, p, scores, image_of(*call.ids, image));
    parts.push_back(select(image_of(numbers, image), kept));
  }
  return call_for_tensor("aten::cat", "", parts, int64_t{0});
}

// All classes of an image by falling score.
Tensor kept_by_class(const NmsCall& call) {
  const SortedGroups found = suppress_groups(call);
  const std::vector<int64_t> shape = {call.images, call.classes * call.per_image};
  const Tensor sorted = sort_last(torch::stable::reshape(found.scores, shape), true).indices;
  const Tensor by_score = take(candidate_numbers(call, call.images), sorted);
  const Tensor flags = torch::stable::reshape(reorder(found.kept, found.order, by_score), shape);
  return masked(by_score, flat(first_flags(flags, call.params.max_output)));
}

}  // namespace

Tensor scores_by_group(const NmsCall& call) {
  Tensor scores = call.scores;
  if (call.by_class) scores = torch::stable::transpose(scores, 1, 2);
  return torch::stable::reshape(torch::stable::contiguous(scores),
                                {call.images * call.classes, call.per_image});
}

Tensor rows_of_candidates(const NmsCall& call, const Tensor& candidates) {
  if (!call.in_batch) return candidates;
  const Tensor size = filled(candidates, {1}, call.per_image);
  const Tensor group = divide(candidates, size);
  std::vector<Tensor> columns = {group};
  if (call.by_class) {
    const Tensor classes = filled(candidates, {1}, call.classes);
    columns = {divide(group, classes), remainder(group, classes)};
  }
  columns.push_back(remainder(candidates, size));
  return call_for_tensor("aten::stack", "", columns, int64_t{1});
}

Tensor nms_on_device(const NmsCall& call) {
  if (call.candidates() == 0) {
    return empty_tensor(call.op, "result", call.boxes, call.result_shape(0), DType::kInt64);
  }
  if (call.by_class) return rows_of_candidates(call, kept_by_class(call));
  if (call.ids && call.in_batch) return rows_of_candidates(call, kept_of_batch(call));
  if (call.ids) {
    return kept_by_ids(call, call.params, torch::stable::contiguous(call.scores), *call.ids);
  }
  const SortedGroups found = suppress_groups(call);
  return rows_of_candidates(call, masked(found.order, found.kept));
}

PaddedResult nms_padded_on_device(const NmsCall& call) {
  const int64_t most = call.params.max_output;
  // First of all, for its error where memory doesn't suffice.
  Tensor none = empty_tensor(call.op, "indices", call.boxes, {call.images, most}, DType::kInt64);
  if (call.candidates() == 0) {
    return {torch::stable::fill_(none, -1.0), filled(call.boxes, {call.images}, 0)};
  }
  const SortedGroups found = suppress_groups(call);
  const Tensor kept = as_bool(torch::stable::reshape(found.kept, {call.images, call.per_image}));
  Tensor rank = running_sum(kept);  // from 1
  // What is not kept goes to a first column, which is cut off.
  const Tensor column =
      call_for_tensor("aten::where", "self", kept, rank, filled(call.boxes, {1}, 0));
  Tensor indices = filled(call.boxes, {call.images, most + 1}, -1);
  indices = call_for_tensor("aten::scatter", "src", indices, int64_t{1}, column, found.indices);
  const Tensor count = torch::stable::narrow(rank, 1, call.per_image - 1, 1);
  // Memory of their own: of a single image, what is cut off would stay before the result.
  return {torch::stable::clone(torch::stable::narrow(indices, 1, 1, most)),
          torch::stable::clone(flat(count))};
}

}  // namespace visops
