// Suppression of device memory: torch's own sorts and selections around the kernel.
#include "core/suppression/nms_scratch.h"
#include "torch/operators.h"
#include "torch/suppression/nms.h"

namespace visops {
namespace {

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

// What is kept of an image's candidates, which are [images, all of an image] by falling score.
Tensor best_of_images(const NmsCall& call, const Tensor& order, const Tensor& kept,
                      const Tensor& by_score) {
  const Tensor flags = torch::stable::reshape(reorder(kept, order, by_score),
                                              {call.images, call.classes * call.per_image});
  return masked(by_score, flat(first_flags(flags, call.params.max_output)));
}

Tensor kept_by_ids(const NmsCall& call) {
  const Tensor scores = scores_by_group(call);
  const Tensor by_score =
      take(candidate_numbers(call, call.images), sort_last(scores, true).indices);
  const Groups groups = groups_by_ids(call, by_score);
  const Tensor kept = suppress(call, call.params, scores, groups.order, groups.segment);
  return best_of_images(call, groups.order, kept, by_score);
}

Tensor kept_by_class(const NmsCall& call) {
  const SortedGroups found = suppress_groups(call);
  const Tensor scores =
      torch::stable::reshape(found.scores, {call.images, call.classes * call.per_image});
  const Tensor by_score =
      take(candidate_numbers(call, call.images), sort_last(scores, true).indices);
  return best_of_images(call, found.order, found.kept, by_score);
}

Tensor differs_from_previous(Tensor values) {
  const int64_t count = values.numel();
  return call_for_tensor("aten::ne", "Tensor", torch::stable::narrow(values, 0, 1, count - 1),
                         torch::stable::narrow(values, 0, 0, count - 1));
}

}  // namespace

Tensor scores_by_group(const NmsCall& call) {
  Tensor scores = call.scores;
  if (call.by_class) scores = torch::stable::transpose(scores, 1, 2);
  return torch::stable::reshape(torch::stable::contiguous(scores),
                                {call.images * call.classes, call.per_image});
}

Groups groups_by_ids(const NmsCall& call, const Tensor& candidates) {
  const Tensor ids = torch::stable::contiguous(torch::stable::to(*call.ids, ScalarType::Long));
  const Sorted by_id = sort_last(select(flat(ids), candidates), false);
  const Tensor order = select(candidates, by_id.indices);
  if (call.images == 1) return {order, by_id.values};
  // An id means another group in each image.
  const Sorted by_image = sort_last(divide(order, filled(order, {1}, call.per_image)), false);
  const Tensor changes =
      call_for_tensor("aten::logical_or", "", differs_from_previous(by_image.values),
                      differs_from_previous(select(by_id.values, by_image.indices)));
  const std::vector<Tensor> steps = {filled(order, {1}, 0),
                                     torch::stable::to(changes, ScalarType::Long)};
  return {select(order, by_image.indices),
          running_sum(call_for_tensor("aten::cat", "", steps, int64_t{0}))};
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
  if (call.ids) return rows_of_candidates(call, kept_by_ids(call));
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
