#include "python/chain/moving.h"

#include <pybind11/numpy.h>

#include <utility>

#include "torch/threads.h"

namespace visops {
namespace {

py::object empty_like(const TensorView& view, TensorView* made) {
  const std::vector<int64_t> shape(view.shape.begin(), view.shape.begin() + view.rank);
  return empty_tensor(shape, torch_dtype(view.dtype), made);
}

py::object move_masks_by(const TensorView& view, const py::object& tensor,
                         const std::vector<const ChainPlan*>& plans, double fill) {
  py::object own = tensor;
  TensorView from = view;
  for (const ChainPlan* plan : plans) {
    if (is_still(*plan)) continue;
    const Canvas& canvas = plan->samples[0].canvas;
    std::vector<int64_t> shape = {static_cast<int64_t>(canvas.height),
                                  static_cast<int64_t>(canvas.width)};
    if (from.rank == 3) shape.insert(shape.begin(), from.shape[0]);
    TensorView to = {};
    py::object made = empty_tensor(shape, torch_dtype(view.dtype), &to);
    move_masks(from, to, *plan, fill, torch_threads());
    own = std::move(made);
    from = to;
  }
  return own;
}

py::object move_boxes_by(const TensorView& view, const py::object& tensor,
                         const std::vector<const ChainPlan*>& plans, const TargetMove& move) {
  if (!move.clips && are_still(plans)) return tensor;
  TensorView to = {};
  py::object made = empty_like(view, &to);
  move_boxes(view, to, plans, move);
  return made;
}

py::object move_points_by(const TensorView& view, const py::object& tensor,
                          const std::vector<const ChainPlan*>& plans, double shift,
                          py::object* visible) {
  TensorView to = {}, flags = {};
  py::object made = empty_like(view, &to);
  const std::vector<int64_t> shape(view.shape.begin(), view.shape.begin() + view.rank - 1);
  py::object seen = empty_tensor(shape, torch_dtype(DType::kBool), &flags);
  move_points(view, to, static_cast<bool*>(flags.data), plans, shift);
  const bool has_visibility = view.side(1) == 3;
  *visible = has_visibility ? py::object() : seen;
  return has_visibility || !are_still(plans) ? made : tensor;
}

}  // namespace

py::object large_rows(const py::object& boxes, BoxFormat format, double least_side,
                      double least_area) {
  TensorView view = {}, flags = {};
  const bool seen = is_tensor(boxes) ? view_tensor(boxes, &view) : view_array(boxes, &view);
  if (!seen) throw std::invalid_argument("boxes have no memory");
  py::object made = empty_tensor({view.shape[0]}, torch_dtype(DType::kBool), &flags);
  const bool all = mark_large(view, format, least_side, least_area, static_cast<bool*>(flags.data));
  return all ? py::object() : made;
}

py::object selected_entries(const py::object& values, const py::object& flags) {
  if (is_tensor(values)) return values[flags];
  if (py::isinstance<py::array>(values)) return values[flags.attr("numpy")()];
  TensorView view = {};
  if (!view_tensor(flags, &view)) throw std::invalid_argument("flags have no memory");
  py::list kept;
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    if (!static_cast<const bool*>(view.data)[i]) continue;
    kept.append(py::handle(PySequence_Fast_GET_ITEM(values.ptr(), i)));
  }
  return PyList_CheckExact(values.ptr()) ? py::object(kept) : py::object(py::tuple(kept));
}

py::object move_target(const Entry& entry, const TensorView& view, const py::object& tensor,
                       const std::vector<const ChainPlan*>& plans, const TargetMove& move,
                       py::object* visible) {
  switch (entry.target) {
    case TargetKind::kMask: return move_masks_by(view, tensor, plans, move.fill);
    case TargetKind::kBoxes: return move_boxes_by(view, tensor, plans, move);
    case TargetKind::kKeypoints: {
      py::object seen;
      py::object moved = move_points_by(view, tensor, plans, move.shift, &seen);
      if (entry.flagged) *visible = seen;
      return moved;
    }
  }
  return tensor;
}

}  // namespace visops
