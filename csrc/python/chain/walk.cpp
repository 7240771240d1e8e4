// The first step of a call: what its sample holds.
#include <pybind11/gil_safe_call_once.h>
#include <pybind11/numpy.h>

#include "python/chain/call.h"

namespace visops {
namespace {

bool is_image_dtype(DType dtype) { return dtype == DType::kUInt8 || is_floating(dtype); }

// Whether labels have so many entries, or none in any order.
bool may_have_entries(const py::object& labels, int64_t count) {
  if (PyList_CheckExact(labels.ptr()) || PyTuple_CheckExact(labels.ptr())) {
    return PySequence_Fast_GET_SIZE(labels.ptr()) == count;
  }
  TensorView view = {};
  if (is_plain_tensor(labels) && view_tensor(labels, &view)) {
    return view.rank == 0 || view.shape[0] == count;
  }
  const py::object length = python().count_of(labels);
  return length.is_none() || length.cast<int64_t>() == count;
}

// Whether a value beside boxes is no list of others.
bool is_plain_value(py::handle value) {
  if (is_plain_tensor(value)) return rank_of_tensor(value) == 0;
  return is_plain_type(Py_TYPE(value.ptr())) && !PyBytes_CheckExact(value.ptr());
}

bool may_be_channels(int64_t count) { return count == 1 || count == 3 || count == 4; }

}  // namespace

PythonSide::PythonSide() {
  const py::module_ module = py::module_::import("visops.transforms.chain.compile");
  outline_of = module.attr("outline_of");
  passes_for = module.attr("passes_for");
  key_of = module.attr("key_of");
  pixels_of = module.attr("pixels_of");
  as_type = module.attr("as_type");
  recorded = module.attr("recorded_by");
  const auto from = [](const char* name) {
    return py::module_::import((std::string("visops.transforms.") + name).c_str());
  };
  fresh_key = from("chain.random").attr("fresh_key");
  count_of = from("sample.entries").attr("count_of");
  tv_wrap = from("sample.leaf").attr("tv_wrap");
  is_pil = from("sample.leaf").attr("is_pil");
  outer_options = from("chain.nesting").attr("_outer");
  file_pass = module.attr("file_pass");
}

const PythonSide& python() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<PythonSide> side;
  return side.call_once_and_store_result([] { return PythonSide(); }).get_stored();
}

py::object value_of(const Entry& entry, const std::vector<py::object>& holders) {
  PyObject* const found = PyObject_GetItem(holders[entry.holder].ptr(), entry.key.ptr());
  if (found == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(found);
}

bool has_entries(py::handle labels) {
  if (is_tensor(labels)) return is_plain_tensor(labels) && rank_of_tensor(labels) > 0;
  if (py::isinstance<py::array>(labels)) {
    return py::reinterpret_borrow<py::array>(labels).ndim() > 0;
  }
  return PyList_CheckExact(labels.ptr()) || PyTuple_CheckExact(labels.ptr());
}

// Where a plain value has its channels. False: an error, or a question for Python.
bool Pipeline::has_channels_last(const TensorView& view, bool is_array, bool* last) const {
  if (!options_.layout.is_none()) {
    *last = PyUnicode_CompareWithASCIIString(options_.layout.ptr(), "HWC") == 0;
    return true;
  }
  const bool leads = may_be_channels(view.side(3)), trails = may_be_channels(view.side(1));
  if (leads != trails) {
    *last = !leads;
    return true;
  }
  *last = is_array;
  return !is_array || leads;
}

// Adds an image [C, H, W] or [H, W, C], or a batch of them: image_leaf() of sample/images.py.
bool Pipeline::read_image(py::handle value, const std::string& name, Images* images) const {
  TensorView view = {};
  bool last = false;
  int rank = 0;
  py::object owner = py::reinterpret_borrow<py::object>(value);
  if (is_plain_tensor(value)) {
    if (!view_tensor(value, &view, true) || view.rank < 3) return false;
    if (!has_channels_last(view, false, &last)) return false;
  } else if (is_tensor(value)) {
    if (!outlines_.is_typed(value)) return false;
    owner = as_plain_tensor(value);
    if (!view_tensor(owner, &view, true) || view.rank < 3) return false;
  } else {
    if (!py::isinstance<py::array>(value)) {
      if (!python().is_pil(value).cast<bool>()) return false;
      owner = python().pixels_of(value, name, options_.indices);
    }
    const auto array = py::reinterpret_borrow<py::array>(owner);
    if (!view_array(array, &view)) return false;
    rank = owner.is(value) ? view.rank : 0;  // PIL images have none
    if (view.rank == 2) {                    // one channel
      view.shape[2] = view.strides[2] = 1;
      view.rank = 3;
      last = true;
    } else if (!owner.is(value)) {
      last = true;
    } else if (view.rank < 3 || !has_channels_last(view, true, &last)) {
      return false;
    }
  }
  if (is_tensor(value)) rank = view.rank;
  images->rank = rank;
  if (view.rank > 4 || (view.rank == 4 && options_.frames) || !is_image_dtype(view.dtype)) {
    return false;
  }
  const int64_t channels = view.side(last ? 1 : 3);
  const bool alike =
      images->dtype == view.dtype && images->channels == channels && images->device == view.device;
  if (!images->all.empty() && !alike) return false;
  images->dtype = view.dtype;
  images->device = view.device;
  images->channels = channels;
  images->channels_last = last;
  images->in_batch = images->in_batch || view.rank == 4;
  if (!images->first) images->first = py::reinterpret_borrow<py::object>(value);
  images->owners.push_back(std::move(owner));
  return append_images(view, last, &images->all);
}

bool Pipeline::read_images(py::handle value, const std::string& name, Images* images) const {
  if (!PyList_CheckExact(value.ptr())) return read_image(value, name, images);
  if (options_.frames || PyList_GET_SIZE(value.ptr()) == 0) return false;
  bool is_first = true, had_last = false;  // of an image before
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value.ptr()); ++i) {
    const auto item = py::reinterpret_borrow<py::object>(PyList_GET_ITEM(value.ptr(), i));
    if (!read_image(item, name, images) || images->in_batch) return false;
    // An image that could have either layout has that of the others, as Python finds out.
    if (!is_first && images->channels_last != had_last) return false;
    had_last = images->channels_last;
    is_first = false;
  }
  images->in_batch = true;
  images->rank = 0;
  return true;
}

std::shared_ptr<const Passes> Pipeline::passes_for(py::handle chain, const Images& images) {
  const std::pair<DType, int64_t> key = {images.dtype, images.channels};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = passes_.find(key);
    if (found != passes_.end()) return found->second;
  }
  const py::object made = python().passes_for(chain, torch_dtype(key.first), key.second);
  std::shared_ptr<const Passes> passes;
  if (!made.is_none()) passes = made.cast<std::shared_ptr<Passes>>();
  const std::lock_guard<std::mutex> lock(mutex_);
  return passes_[key] = passes;
}

// Whether it belongs to images of this size, and nothing about it is unusual.
bool Pipeline::read_target(const Entry& entry, py::handle value, const Images& images,
                           Target* target) const {
  target->entry = &entry;
  target->move = {0.0, options_.keypoint_shift, BoxFormat::kCorners, options_.clips_boxes};
  target->like = py::reinterpret_borrow<py::object>(value);
  TensorView& view = target->view;
  if (py::isinstance<py::array>(value)) {
    target->tensor = target->like;
    if (!view_array(value, &view)) return false;
  } else {
    target->tensor = as_plain_tensor(value);
    if (!view_tensor(target->tensor, &view)) return false;
  }
  if (view.rank != entry.rank) return false;
  const int64_t height = images.all[0].height, width = images.all[0].width;
  const auto fits_canvas = [&] {
    if (target->is_plain()) return true;
    const py::tuple canvas(target->like.attr("canvas_size"));
    return canvas[0].cast<int64_t>() == height && canvas[1].cast<int64_t>() == width;
  };
  const bool is_float = view.dtype == DType::kFloat32 || view.dtype == DType::kFloat64;
  switch (entry.target) {
    case TargetKind::kMask: {
      const bool whole = view.dtype == DType::kUInt8;
      target->move.fill = entry.per_box ? 0.0
                                        : static_cast<double>(whole ? options_.mask_fill
                                                                    : options_.other_mask_fill);
      if (view.side(2) != height || view.side(1) != width) return false;
      if (!entry.per_box && options_.pads) return false;
      return holds(view.dtype, target->move.fill);
    }
    case TargetKind::kBoxes: {
      if (!is_float || view.shape[1] != 4 || !fits_canvas()) return false;
      if (!target->is_plain()) {
        const py::object format = target->like.attr("format").attr("_value_");
        const auto is = [&](const char* name) {
          return PyUnicode_CompareWithASCIIString(format.ptr(), name) == 0;
        };
        if (is("XYWH")) {
          target->move.format = BoxFormat::kSizes;
        } else if (is("CXCYWH")) {
          target->move.format = BoxFormat::kCentres;
        } else if (!is("XYXY")) {
          return false;
        }
      }
      return are_placed_boxes(view, target->move.format);
    }
    case TargetKind::kKeypoints: {
      const bool usual = is_float && (view.side(1) == 2 || view.side(1) == 3);
      return usual && view.is_contiguous() && fits_canvas();
    }
  }
  return false;
}

bool Pipeline::read_targets(const Outline& outline, const std::vector<py::object>& holders,
                            const Images& images, std::vector<Target>* targets) const {
  for (const Entry& entry : outline.arrays) {
    if (value_of(entry, holders).attr("ndim").cast<int64_t>() > 1) return false;
  }
  if (outline.targets.empty()) return true;
  if (!moves_targets() || images.in_batch) return false;
  targets->resize(outline.targets.size());
  for (size_t i = 0; i < targets->size(); ++i) {
    const Entry& entry = outline.targets[i];
    if (!read_target(entry, value_of(entry, holders), images, &(*targets)[i])) return false;
  }
  if (outline.boxes < 0) return true;
  const Target& boxes = (*targets)[static_cast<size_t>(outline.boxes)];
  for (const Target& target : *targets) {
    if (target.entry->per_box && target.count() != boxes.count()) return false;
  }
  for (const Entry& entry : outline.labels) {
    if (entry.holder != boxes.entry->holder) continue;
    const py::object value = value_of(entry, holders);
    if (!may_have_entries(value, boxes.count())) return false;
    if (options_.drops_boxes && !has_entries(value) && !is_plain_value(value)) return false;
  }
  return true;
}

bool Pipeline::walk(py::handle chain, py::handle sample, Call* call) {
  py::object value = py::reinterpret_borrow<py::object>(sample);
  if (!is_plain_tensor(sample)) {
    call->outline = outlines_.find(sample, [&] { return python().outline_of(chain, sample); });
    if (!call->outline) return false;
    call->name = call->outline->image.name;
    if (!call->outline->is_alone()) {
      call->holders = holders_of(*call->outline, sample);
      value = value_of(call->outline->image, call->holders);
    }
  }
  if (!read_images(value, call->name, &call->images)) return false;
  call->passes = passes_for(chain, call->images);
  if (call->passes == nullptr) return false;
  if (call->holders.empty()) return true;
  // What else a sample holds was looked at beside an image of this rank.
  return call->images.rank == call->outline->image.rank &&
         read_targets(*call->outline, call->holders, call->images, &call->targets);
}

}  // namespace visops
