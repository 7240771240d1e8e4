// The torch front of soft suppression.
#include "core/suppression/soft_nms.h"

#include <algorithm>

#include "core/check.h"
#include "torch/operators.h"
#include "torch/register.h"
#include "torch/suppression/nms.h"

namespace visops {
namespace {

using MaybeTensor = std::optional<Tensor>;
using RowsAndScores = std::tuple<Tensor, Tensor>;

struct Decayed {
  double score;
  int64_t image, candidate;
};

// Sorts kept candidates by image and falling score; returns at most max_output of each image.
std::vector<Decayed> best_of_images(const NmsCall& call, std::vector<Decayed> kept) {
  std::sort(kept.begin(), kept.end(), [](const Decayed& a, const Decayed& b) {
    if (a.image != b.image) return a.image < b.image;
    return a.score != b.score ? a.score > b.score : a.candidate < b.candidate;
  });
  if (call.params.max_output < 0) return kept;
  std::vector<Decayed> best;
  int64_t image = -1, left = 0;
  for (const Decayed& d : kept) {
    if (d.image != image) {
      image = d.image;
      left = call.params.max_output;
    }
    if (left-- > 0) best.push_back(d);
  }
  return best;
}

void run_kernel(const NmsCall& call, const SoftNmsParams& p) {
  run(call.rotated ? soft_nms_rotated_stub : soft_nms_stub, call.op, p, call.boxes);
}

// Acc is what the kernel computes scores in.
template <class Acc>
std::vector<Decayed> decay_on_host(const NmsCall& call, SoftNmsParams p, const Candidates& found) {
  NmsParams& c = p.candidates;
  found.set_in(&c);
  const ValueStrides stride(call, call.scores);
  const void* given = call.scores.const_data_ptr();
  std::vector<Acc> scores(static_cast<size_t>(c.count));
  for (int64_t i = 0; i < c.count; ++i) {
    scores[i] = load_coordinate<Acc>(given, call.score_dtype, stride.of(call, c.order[i]));
  }
  p.scores = scores.data();
  std::vector<uint8_t> flags(scores.size());
  c.kept = flags.data();
  run_kernel(call, p);
  std::vector<Decayed> kept;
  const int64_t in_image = call.classes * call.per_image;
  for (int64_t i = 0; i < c.count; ++i) {
    if (flags[i] == 0) continue;
    const int64_t image = call.in_batch ? c.order[i] / in_image : 0;
    kept.push_back({static_cast<double>(scores[i]), image, c.order[i]});
  }
  return kept;
}

RowsAndScores soft_nms_on_host(const NmsCall& call, const SoftNmsParams& p) {
  const Candidates found = list_by_number(call, p.min_score);
  const std::vector<Decayed> kept =
      best_of_images(call, p.in_double ? decay_on_host<double>(call, p, found)
                                       : decay_on_host<float>(call, p, found));
  const auto count = static_cast<int64_t>(kept.size());
  const Tensor rows =
      empty_tensor(call.op, "result", call.boxes, call.result_shape(count), DType::kInt64);
  const Tensor scores = empty_tensor(call.op, "result", call.boxes, {count}, call.score_dtype);
  auto* row = static_cast<int64_t*>(rows.mutable_data_ptr());
  for (int64_t i = 0; i < count; ++i) {
    row = call.write_row(kept[i].candidate, row);
    store_rounded(scores.mutable_data_ptr(), call.score_dtype, i, kept[i].score);
  }
  return {rows, scores};
}

// Sorting takes a GPU longer than it saves, unless groups have many boxes. With ids, most groups
// have a small part of them.
bool is_worth_sorting(const NmsCall& call) {
  const int64_t least = call.boxes.is_cuda() ? 2048 : 100;
  return call.per_image >= (call.ids ? 4 * least : least);
}

// All candidates, one group after another; neighbours within a group lie near each other.
Tensor candidates_by_position(const NmsCall& call, SoftNmsParams p) {
  const int64_t count = call.candidates();
  const Tensor codes = empty_tensor(call.op, "scratch", call.boxes, {count}, DType::kInt32);
  p.candidates.count = count;
  p.codes = data_of<int32_t>(codes);
  run_kernel(call, p);
  const std::vector<int64_t> rows = {call.images * call.classes, call.per_image};
  return take(numbers(call.boxes, rows[0], rows[1]),
              sort_last(torch::stable::reshape(codes, rows), false).indices);
}

Groups groups_on_device(const NmsCall& call, const SoftNmsParams& p) {
  const Tensor all =
      p.by_code ? candidates_by_position(call, p) : flat(numbers(call.boxes, 1, call.candidates()));
  if (call.ids) return groups_by_ids(call, all);
  return {all, divide(all, filled(all, {1}, call.per_image)), all};
}

RowsAndScores soft_nms_on_device(const NmsCall& call, SoftNmsParams p) {
  NmsParams& c = p.candidates;
  const ScalarType result_type = scalar_type_of(call.score_dtype);
  if (call.candidates() == 0) {
    return {empty_tensor(call.op, "result", call.boxes, call.result_shape(0), DType::kInt64),
            empty_tensor(call.op, "result", call.boxes, {0}, call.score_dtype)};
  }
  p.by_code = is_worth_sorting(call);
  const Groups groups = groups_on_device(call, p);
  const ScalarType computed = p.in_double ? ScalarType::Double : ScalarType::Float;
  // Detached: there is no gradient, but torch's own operators would record one.
  const Tensor given =
      torch::stable::to(call_for_tensor("aten::detach", "", flat(scores_by_group(call))), computed);
  const Tensor scores = select(given, groups.order);  // a copy, which the kernel may change
  const Tensor kept = empty_tensor(call.op, "scratch", call.boxes, {scores.numel()}, DType::kUInt8);
  c.count = scores.numel();
  c.order = data_of<const int64_t>(groups.order);
  c.segment = data_of<const int64_t>(groups.segment);
  p.scores = scores.mutable_data_ptr();
  c.kept = data_of<uint8_t>(kept);
  run_kernel(call, p);

  // Scores by number, one row for each image; -1 for dropped boxes, as kept scores are not
  // negative.
  const Tensor out = filled(call.boxes, {1}, -1);
  const Tensor left = call_for_tensor("aten::where", "self", as_bool(kept), scores, out);
  const Tensor by_number =
      call_for_tensor("aten::index_copy", "", left, int64_t{0}, groups.order, left);
  const int64_t group = call.classes * call.per_image;
  Sorted sorted = sort_last(torch::stable::reshape(by_number, {call.images, group}), true);
  if (c.max_output >= 0 && c.max_output < group) {
    sorted.values = torch::stable::narrow(sorted.values, 1, 0, c.max_output);
    sorted.indices = torch::stable::narrow(sorted.indices, 1, 0, c.max_output);
  }
  const Tensor is_kept =
      call_for_tensor("aten::gt", "Tensor", sorted.values, filled(call.boxes, {1}, -1));
  const Tensor candidates = take(numbers(call.boxes, call.images, group), sorted.indices);
  Tensor positions = flat(numbers(call.boxes, 1, call.candidates()));
  positions = torch::stable::narrow(positions, 0, 0, candidates.numel());
  const Tensor left_over = masked(positions, flat(is_kept));  // waits for how many are left
  return {rows_of_candidates(call, select(candidates, left_over)),
          torch::stable::to(select(flat(sorted.values), left_over), result_type)};
}

RowsAndScores run_soft_nms(const char* op, const Tensor& boxes, const Tensor& scores,
                           const MaybeTensor& idxs, NmsForms forms, const std::string& method,
                           double iou_threshold, double sigma, double min_score,
                           int64_t max_output) {
  SoftNmsParams p = {};
  p.decay = parse_decay(op, method);
  p.sigma = sigma;
  p.min_score = min_score;
  check_soft_nms(op, p);
  const NmsCall call =
      checked_nms_call(op, boxes, scores, idxs, forms, iou_threshold, max_output, std::nullopt);
  p.candidates = call.params;
  p.in_double =
      call.rotated || computes_in_double(call.params.dtype) || computes_in_double(call.score_dtype);
  return runs_cuda_kernels(boxes) ? soft_nms_on_device(call, p) : soft_nms_on_host(call, p);
}

RowsAndScores soft_nms(const Tensor& boxes, const Tensor& scores, std::string method,
                       double iou_threshold, double sigma, double min_score, int64_t max_output) {
  return run_soft_nms("soft_nms", boxes, scores, {}, {true, false}, method, iou_threshold, sigma,
                      min_score, max_output);
}

RowsAndScores batched_soft_nms(const Tensor& boxes, const Tensor& scores, const MaybeTensor& idxs,
                               std::string method, double iou_threshold, double sigma,
                               double min_score, int64_t max_output) {
  return run_soft_nms("batched_soft_nms", boxes, scores, idxs, {true, true, true}, method,
                      iou_threshold, sigma, min_score, max_output);
}

RowsAndScores soft_nms_rotated(const Tensor& boxes, const Tensor& scores, const MaybeTensor& idxs,
                               std::string method, double iou_threshold, double sigma,
                               double min_score, int64_t max_output) {
  return run_soft_nms("soft_nms_rotated", boxes, scores, idxs, {true, false, true, true}, method,
                      iou_threshold, sigma, min_score, max_output);
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("soft_nms", VISOPS_BOX(&visops::soft_nms));
  m.impl("batched_soft_nms", VISOPS_BOX(&visops::batched_soft_nms));
  m.impl("soft_nms_rotated", VISOPS_BOX(&visops::soft_nms_rotated));
}
