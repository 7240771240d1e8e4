#include "torch/suppression/nms_device.h"

#include "torch/operators.h"

namespace visops {
namespace {

// 0, 1, ...: all candidates, in `rows` rows.
Tensor candidate_numbers(const NmsCall& call, int64_t rows) {
  return numbers(call.boxes, rows, call.candidates() / rows);
}

// Runs the kernel on candidates in `order`. Returns a flag for each. `scores` are by candidate.
Tensor kept_flags(const NmsCall& call, const Tensor& scores, const Tensor& order,
                  const Tensor& segment) {
  NmsParams p = call.params;
  p.count = order.numel();
  p.order = data_of<const int64_t>(order);
  p.segment = data_of<const int64_t>(segment);
  if (call.score_threshold) {
    p.filter = {scores.const_data_ptr(), call.score_dtype, *call.score_threshold};
  }
  const Tensor kept = empty_tensor(call.op, "scratch", call.boxes, {p.count}, DType::kUInt8);
  p.kept = data_of<uint8_t>(kept);
  call.run_kernel(p);
  return kept;
}

// The outcome where groups are images or classes of images.
struct GroupsKept {
  Tensor scores;   // [groups, per_image]
  Tensor indices;  // [groups, per_image] boxes, by falling score
  Tensor order;    // [candidates] the same boxes as candidates
  Tensor kept;     // [candidates] flags by position in `order`
};

GroupsKept keep_by_group(const NmsCall& call) {
  const Tensor scores = scores_by_group(call);
  const Tensor indices = sort_last(scores, true).indices;
  const Tensor order = take(candidate_numbers(call, call.images * call.classes), indices);
  const Tensor segment = divide(order, filled(order, {1}, call.per_image));
  return {scores, indices, order, kept_flags(call, scores, order, segment)};
}

// `flags` by position in `order`, rearranged for the same candidates in another order.
Tensor reorder(const Tensor& flags, const Tensor& order, const Tensor& other) {
  return select(call_for_tensor("aten::index_copy", "", flags, int64_t{0}, order, flags), other);
}

// Clears all but the first max_output set flags of each row.
Tensor first_flags(const Tensor& flags, int64_t max_output) {
  if (max_output < 0) return flags;
  const Tensor room = filled(flags, {1}, max_output);
  const Tensor fits = call_for_tensor("aten::le", "Tensor", running_sum(flags), room);
  return call_for_tensor("aten::logical_and", "", flags, fits);
}

// The kept candidates, at most max_output of each image. `by_score` has all candidates, image by
// image, by falling score.
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
  const Tensor kept = kept_flags(call, scores, groups.order, groups.segment);
  return best_of_images(call, groups.order, kept, by_score);
}

Tensor kept_by_class(const NmsCall& call) {
  const GroupsKept found = keep_by_group(call);
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
  // The same id in another image is another group.
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
  const GroupsKept found = keep_by_group(call);
  return rows_of_candidates(call, masked(found.order, found.kept));
}

PaddedResult nms_padded_on_device(const NmsCall& call) {
  const int64_t most = call.params.max_output;
  // Allocated first, to fail early if memory runs out.
  Tensor none = empty_tensor(call.op, "indices", call.boxes, {call.images, most}, DType::kInt64);
  if (call.candidates() == 0) {
    return {torch::stable::fill_(none, -1.0), filled(call.boxes, {call.images}, 0)};
  }
  const GroupsKept found = keep_by_group(call);
  const Tensor kept = as_bool(torch::stable::reshape(found.kept, {call.images, call.per_image}));
  Tensor rank = running_sum(kept);  // from 1
  // Dropped boxes go to column 0, which is cut off.
  const Tensor column =
      call_for_tensor("aten::where", "self", kept, rank, filled(call.boxes, {1}, 0));
  Tensor indices = filled(call.boxes, {call.images, most + 1}, -1);
  indices = call_for_tensor("aten::scatter", "src", indices, int64_t{1}, column, found.indices);
  const Tensor count = torch::stable::narrow(rank, 1, call.per_image - 1, 1);
  // Cloned: a single image's row would be a view behind the column that is cut off.
  return {torch::stable::clone(torch::stable::narrow(indices, 1, 1, most)),
          torch::stable::clone(flat(count))};
}

}  // namespace visops
