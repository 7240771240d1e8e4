#include "torch/suppression/nms_device.h"

#include "core/suppression/nms_pad.h"
#include "torch/operators.h"

namespace visops {
namespace {

// 0, 1, ...: all candidates, in `rows` rows.
Tensor candidate_numbers(const NmsCall& call, int64_t rows) {
  return numbers(call.boxes, rows, call.candidates() / rows);
}

// What kept_flags() leaves to the kernel.
struct KernelWork {
  const Tensor* filter = nullptr;  // scores by candidate, of which some are below the threshold
  bool may_wait = false;           // for the length of the longest segment
};

int64_t read_number(const void* tensor) {
  return *data_of<const int64_t>(on_host(*static_cast<const Tensor*>(tensor)));
}

// Runs the kernel on candidates in `order`. Returns a flag for each.
Tensor kept_flags(const NmsCall& call, const Tensor& order, const Tensor& segment,
                  const KernelWork& work) {
  NmsParams p = call.params;
  p.count = order.numel();
  p.order = data_of<const int64_t>(order);
  p.segment = data_of<const int64_t>(segment);
  const Tensor longest = filled(call.boxes, {work.may_wait ? 1 : 0}, 0);
  if (work.may_wait) p.longest = {data_of<int64_t>(longest), read_number, &longest};
  if (call.score_threshold && work.filter != nullptr) {
    p.filter = {work.filter->const_data_ptr(), call.score_dtype, *call.score_threshold};
  }
  const Tensor kept = empty_tensor(call.op, "scratch", call.boxes, {p.count}, DType::kUInt8);
  p.kept = data_of<uint8_t>(kept);
  call.run_kernel(p);
  return kept;
}

// The outcome where groups are images or classes of images.
struct GroupsKept {
  Tensor scores;  // [groups, per_image]
  Tensor order;   // [candidates] group by group, by falling score
  Tensor kept;    // [candidates] flags by position in `order`
};

GroupsKept keep_by_group(const NmsCall& call) {
  const Tensor scores = scores_by_group(call);
  const Tensor order =
      take(candidate_numbers(call, call.images * call.classes), sort_last(scores, true).indices);
  const Tensor segment = divide(order, filled(order, {1}, call.per_image));
  return {scores, order, kept_flags(call, order, segment, {&scores})};
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
  const Tensor kept = kept_flags(call, groups.order, groups.segment, {&scores, true});
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

Groups groups_by_class(const NmsCall& call, const Tensor& candidates) {
  const Sorted by_class =
      sort_last(divide(candidates, filled(candidates, {1}, call.per_image)), false);
  return {select(candidates, by_class.indices), by_class.values, by_class.indices};
}

Tensor differs_from_previous(Tensor values) {
  const int64_t count = values.numel();
  return call_for_tensor("aten::ne", "Tensor", torch::stable::narrow(values, 0, 1, count - 1),
                         torch::stable::narrow(values, 0, 0, count - 1));
}

// Clears all but the first max_output set flags of each image. `image` rises.
Tensor first_flags_of_images(const NmsCall& call, const Tensor& flags, const Tensor& image) {
  if (call.params.max_output < 0 || call.images == 1) {
    return first_flags(flags, call.params.max_output);
  }
  Tensor kept = call_for_tensor("aten::scatter_add", "", filled(flags, {call.images}, 0),
                                int64_t{0}, image, torch::stable::to(flags, ScalarType::Long));
  // Up to which flag an image's first ones go: as many as all images before it have, and more.
  const std::vector<Tensor> steps = {filled(flags, {1}, call.params.max_output),
                                     torch::stable::narrow(kept, 0, 0, call.images - 1)};
  const Tensor last = running_sum(call_for_tensor("aten::cat", "", steps, int64_t{0}));
  const Tensor fits =
      call_for_tensor("aten::le", "Tensor", running_sum(flags), select(last, image));
  return call_for_tensor("aten::logical_and", "", flags, fits);
}

// With so many candidates, listing those that take part saves more than waiting for their number
// costs.
bool is_worth_listing(const NmsCall& call) {
  const int64_t least = call.boxes.is_cuda() ? int64_t{1} << 16 : 64;
  return call.score_threshold && call.candidates() >= least;
}

// As nms_on_device(), with sorts and scratch for candidates above the threshold only.
Tensor kept_of_listed(const NmsCall& call) {
  const Tensor all = flat(scores_by_group(call));
  const Tensor least = number(all, *call.score_threshold, all.scalar_type());
  const Tensor listed =
      masked(flat(candidate_numbers(call, 1)), call_for_tensor("aten::gt", "Tensor", all, least));
  if (listed.numel() == 0) return listed;
  const Tensor scores = select(all, listed);
  const Tensor group = divide(listed, filled(listed, {1}, call.per_image));
  if (!call.by_class && !call.ids) {
    const Sorted by_image = sort_by_group(scores, group);
    const Tensor order = select(listed, by_image.indices);
    return masked(order, kept_flags(call, order, by_image.values, {nullptr, call.images > 1}));
  }
  const Tensor in_image = filled(listed, {1}, call.classes * call.per_image);
  const Sorted by_image = sort_by_group(scores, divide(listed, in_image));
  const Tensor by_score = select(listed, by_image.indices);
  const Groups groups = call.ids ? groups_by_ids(call, by_score) : groups_by_class(call, by_score);
  const Tensor kept = kept_flags(call, groups.order, groups.segment, {nullptr, true});
  const Tensor flags = call_for_tensor("aten::index_copy", "", kept, int64_t{0}, groups.slot, kept);
  return masked(by_score, first_flags_of_images(call, flags, by_image.values));
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
  if (call.images == 1) return {order, by_id.values, by_id.indices};
  // The same id in another image is another group.
  const Sorted by_image = sort_last(divide(order, filled(order, {1}, call.per_image)), false);
  const Tensor changes =
      call_for_tensor("aten::logical_or", "", differs_from_previous(by_image.values),
                      differs_from_previous(select(by_id.values, by_image.indices)));
  const std::vector<Tensor> steps = {filled(order, {1}, 0),
                                     torch::stable::to(changes, ScalarType::Long)};
  return {select(order, by_image.indices),
          running_sum(call_for_tensor("aten::cat", "", steps, int64_t{0})),
          select(by_id.indices, by_image.indices)};
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
  if (is_worth_listing(call)) return rows_of_candidates(call, kept_of_listed(call));
  if (call.by_class) return rows_of_candidates(call, kept_by_class(call));
  if (call.ids) return rows_of_candidates(call, kept_by_ids(call));
  const GroupsKept found = keep_by_group(call);
  return rows_of_candidates(call, masked(found.order, found.kept));
}

PaddedResult nms_padded_on_device(const NmsCall& call) {
  const PaddedResult result = empty_padded_result(call);  // first, to fail early
  NmsPadParams p = padding_of(call, result);
  if (call.candidates() == 0) {
    run_padding(call, p);
    return result;
  }
  const GroupsKept found = keep_by_group(call);
  p.candidates = data_of<const int64_t>(found.order);
  p.kept = data_of<const uint8_t>(found.kept);
  run_padding(call, p);
  return result;
}

}  // namespace visops
