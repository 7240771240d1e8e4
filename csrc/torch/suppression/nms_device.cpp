#include "torch/suppression/nms.h"

#include <algorithm>
#include <numeric>

#include "core/numbers/arithmetic.h"
#include "core/suppression/nms.h"
#include "torch/operators.h"

namespace visops {
namespace {

using MaybeTensor = std::optional<Tensor>;

// 0, 1, ...: all candidates, in `rows` rows.
Tensor candidate_numbers(const NmsCall& call, int64_t rows) {
  return numbers(call.boxes, rows, call.candidates() / rows);
}

// With so many boxes of an image, a sort by place saves more comparisons than it costs.
bool is_worth_placing(const NmsCall& call, int64_t count) {
  return count > (call.boxes.is_cuda() ? 1 << 14 : 300);
}

// Positions of each of `images` in the order of the kernel's codes, all in `p`.
Tensor sorted_by_place(const NmsCall& call, NmsParams p, int64_t images) {
  const Tensor codes =
      empty_tensor(call.op, "scratch", call.boxes, {images, p.count / images}, DType::kInt32);
  p.codes = data_of<int32_t>(codes);
  call.run_kernel(p);
  return sort_last(codes, false).indices;
}

// Runs the kernel on candidates in `order`; without `segment`, numbers of images' boxes. Returns a
// flag for each. With `filter`, scores by candidate, those below the threshold take no part.
Tensor kept_flags(const NmsCall& call, const Tensor& order, const Tensor* segment,
                  const Tensor* filter) {
  NmsParams p = call.params;
  p.count = order.numel();
  p.order = data_of<const int64_t>(order);
  if (segment != nullptr) p.segment = data_of<const int64_t>(*segment);
  if (call.score_threshold && filter != nullptr) {
    p.filter = {filter->const_data_ptr(), call.score_dtype, *call.score_threshold};
  }
  MaybeTensor by_place;
  if (segment == nullptr && is_worth_placing(call, std::min(p.count, p.per_image))) {
    by_place = sorted_by_place(call, p, parts_of(p.count, p.per_image));
    p.by_place = data_of<const int64_t>(*by_place);
  }
  const Tensor kept = empty_tensor(call.op, "scratch", call.boxes, {p.count}, DType::kUInt8);
  p.kept = data_of<uint8_t>(kept);
  call.run_kernel(p);
  return kept;
}

// Candidates in the order of the result, and which of them are kept.
struct Outcome {
  Tensor listed;
  bool within_images;  // they are numbered from 0 on in each image
  Tensor kept;
  MaybeTensor slot = {};   // which flag is each candidate's; none: its own
  MaybeTensor image = {};  // each candidate's, rising; none: all candidates are listed
};

// Clears all but the first max_output flags of each image.
void limit(const NmsCall& call, const Outcome& outcome) {
  NmsLimitParams p = {};
  p.count = outcome.listed.numel();
  p.images = call.images;
  p.in_image = call.classes * call.per_image;
  const int64_t most = call.params.max_output;
  if (most < 0 || most >= p.in_image || p.count == 0) return;
  if (outcome.image) p.image = data_of<const int64_t>(*outcome.image);
  p.most = most;
  if (outcome.slot) p.slot = data_of<const int64_t>(*outcome.slot);
  p.kept = data_of<uint8_t>(outcome.kept);
  run(nms_limit_stub, call.op, p, call.boxes);
}

// The kept candidates as rows of the result.
Tensor rows_of(const NmsCall& call, const Outcome& outcome) {
  limit(call, outcome);
  NmsRowsParams p = {};
  p.count = outcome.listed.numel();
  p.per_image = call.per_image;
  p.classes = call.classes;
  p.candidates = data_of<const int64_t>(outcome.listed);
  p.within_images = outcome.within_images;
  p.kept = data_of<const uint8_t>(outcome.kept);
  if (outcome.slot) p.slot = data_of<const int64_t>(*outcome.slot);
  p.names_image = call.in_batch;
  p.names_class = call.by_class;
  constexpr int64_t kLeast = 2048, kMostChunks = 4096;
  p.chunk = std::max(kLeast, parts_of(p.count, kMostChunks));
  const int64_t chunks = parts_of(p.count, p.chunk);
  const Tensor counts = empty_tensor(call.op, "scratch", call.boxes, {chunks}, DType::kInt64);
  p.counts = data_of<int64_t>(counts);
  run(nms_rows_stub, call.op, p, call.boxes);
  const Tensor read = on_host(counts);  // waits
  const auto* count = data_of<const int64_t>(read);
  const int64_t rows = std::accumulate(count, count + chunks, int64_t{0});
  const Tensor result =
      empty_tensor(call.op, "result", call.boxes, call.result_shape(rows), DType::kInt64);
  if (rows == 0) return result;
  p.rows = data_of<int64_t>(result);
  run(nms_rows_stub, call.op, p, call.boxes);
  return result;
}

// Comparing all candidates of an image with one another takes less time than sorting them, and
// several of torch's operators around that, as long as there are no more pairs.
bool is_worth_comparing(const NmsCall& call) {
  const int64_t most = call.boxes.is_cuda() ? int64_t{1} << 28 : 300 * 300;
  const int64_t count = call.candidates();
  return count <= most && count * (call.classes * call.per_image) <= most;
}

NmsRankParams ranks_of(const NmsCall& call, const Tensor& scores) {
  NmsRankParams p = {};
  p.scores = scores.const_data_ptr();
  p.dtype = call.score_dtype;
  p.images = call.images;
  p.per_image = call.per_image;
  p.classes = call.classes;
  return p;
}

Tensor whole_ids(const NmsCall& call) {
  return torch::stable::contiguous(torch::stable::to(*call.ids, ScalarType::Long));
}

Outcome keep_in_images(const NmsCall& call) {
  const Tensor scores = scores_by_group(call);
  if (!is_worth_comparing(call)) {
    const Tensor order = sort_last(scores, true).indices;
    return {order, true, kept_flags(call, order, nullptr, &scores)};
  }
  const Tensor order =
      empty_tensor(call.op, "scratch", call.boxes, {call.candidates()}, DType::kInt64);
  NmsRankParams p = ranks_of(call, scores);
  p.order = data_of<int64_t>(order);
  run(nms_rank_stub, call.op, p, call.boxes);
  return {order, true, kept_flags(call, order, nullptr, &scores)};
}

// `flags` by position in `order`, rearranged for the same candidates in another order.
Tensor reorder(const Tensor& flags, const Tensor& order, const Tensor& other) {
  return select(call_for_tensor("aten::index_copy", "", flags, int64_t{0}, order, flags), other);
}

Groups groups_by_class(const NmsCall& call, const Tensor& candidates) {
  const Sorted by_class =
      sort_last(divide(candidates, filled(candidates, {1}, call.per_image)), false);
  return {select(candidates, by_class.indices), by_class.values, by_class.indices};
}

// Groups are ids or classes.
Outcome keep_in_groups(const NmsCall& call) {
  const Tensor scores = scores_by_group(call);
  if (is_worth_comparing(call)) {
    const Tensor ids = call.ids ? whole_ids(call) : scores;
    const Tensor all =
        empty_tensor(call.op, "scratch", call.boxes, {4, call.candidates()}, DType::kInt64);
    const auto row = [&](int64_t i) { return torch::stable::select(all, 0, i); };
    const Tensor order = row(0), segment = row(1), listed = row(2), slot = row(3);
    NmsRankParams p = ranks_of(call, scores);
    if (call.ids) p.ids = data_of<const int64_t>(ids);
    p.order = data_of<int64_t>(order);
    p.segment = data_of<int64_t>(segment);
    p.listed = data_of<int64_t>(listed);
    p.slot = data_of<int64_t>(slot);
    run(nms_rank_stub, call.op, p, call.boxes);
    return {listed, false, kept_flags(call, order, &segment, &scores), slot};
  }
  const Tensor in_images =
      torch::stable::reshape(scores, {call.images, call.classes * call.per_image});
  const Tensor by_score =
      take(candidate_numbers(call, call.images), sort_last(in_images, true).indices);
  const Groups groups = call.ids ? groups_by_ids(call, by_score) : groups_by_class(call, by_score);
  const Tensor kept = kept_flags(call, groups.order, &groups.segment, &scores);
  return {by_score, false, reorder(kept, groups.order, by_score)};
}

Tensor differs_from_previous(Tensor values) {
  const int64_t count = values.numel();
  return call_for_tensor("aten::ne", "Tensor", torch::stable::narrow(values, 0, 1, count - 1),
                         torch::stable::narrow(values, 0, 0, count - 1));
}

// With so many candidates, listing those that take part saves more than waiting for their number
// costs.
bool is_worth_listing(const NmsCall& call) {
  const int64_t least = call.boxes.is_cuda() ? int64_t{1} << 16 : 64;
  return call.score_threshold && call.candidates() >= least;
}

// As keep_in_images() and keep_in_groups(), with sorts and scratch for candidates above the
// threshold only.
Outcome keep_listed(const NmsCall& call) {
  const Tensor all = flat(scores_by_group(call));
  const Tensor least = number(all, *call.score_threshold, all.scalar_type());
  const Tensor listed =
      masked(flat(candidate_numbers(call, 1)), call_for_tensor("aten::gt", "Tensor", all, least));
  if (listed.numel() == 0) return {listed, false, listed};
  const Tensor scores = select(all, listed);
  const Tensor group = divide(listed, filled(listed, {1}, call.per_image));
  if (!call.by_class && !call.ids) {
    const Sorted by_image = sort_by_group(scores, group);
    const Tensor order = select(listed, by_image.indices);
    const bool are_images = call.images == 1;  // all of one: no segments
    const Tensor kept = kept_flags(call, order, are_images ? nullptr : &by_image.values, nullptr);
    return {order, false, kept, {}, by_image.values};
  }
  const Tensor in_image = filled(listed, {1}, call.classes * call.per_image);
  const Sorted by_image = sort_by_group(scores, divide(listed, in_image));
  const Tensor by_score = select(listed, by_image.indices);
  const Groups groups = call.ids ? groups_by_ids(call, by_score) : groups_by_class(call, by_score);
  const Tensor kept = kept_flags(call, groups.order, &groups.segment, nullptr);
  const Tensor flags = call_for_tensor("aten::index_copy", "", kept, int64_t{0}, groups.slot, kept);
  return {by_score, false, flags, {}, by_image.values};
}

}  // namespace

Tensor scores_by_group(const NmsCall& call) {
  Tensor scores = call.scores;
  if (call.by_class) scores = torch::stable::transpose(scores, 1, 2);
  return torch::stable::reshape(torch::stable::contiguous(scores),
                                {call.images * call.classes, call.per_image});
}

Groups groups_by_ids(const NmsCall& call, const Tensor& candidates) {
  const Tensor ids = whole_ids(call);
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
  if (is_worth_listing(call)) return rows_of(call, keep_listed(call));
  const bool has_groups = call.ids || call.classes > 1;
  return rows_of(call, has_groups ? keep_in_groups(call) : keep_in_images(call));
}

PaddedResult nms_padded_on_device(const NmsCall& call) {
  const PaddedResult result = empty_padded_result(call);  // first, to fail early
  NmsPadParams p = padding_of(call, result);
  if (call.candidates() == 0) {
    run_padding(call, p);
    return result;
  }
  const Outcome found = keep_in_images(call);
  p.candidates = data_of<const int64_t>(found.listed);
  p.within_images = true;
  p.kept = data_of<const uint8_t>(found.kept);
  run_padding(call, p);
  return result;
}

}  // namespace visops
