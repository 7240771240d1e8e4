#include "python/chain/pipeline.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "core/dispatch/workspace.h"
#include "python/bindings.h"
#include "python/chain/call.h"
#include "python/torch_api.h"

namespace visops {
namespace {

// Whether a chain runs within another package's transform, whose options it then takes.
bool is_within_another() {
  PyObject* value = nullptr;
  if (PyContextVar_Get(python().outer_options.ptr(), nullptr, &value) < 0) {
    throw py::error_already_set();
  }
  const auto outer = py::reinterpret_steal<py::object>(value);
  return outer && !outer.is_none();
}

// A whole number for each sample of a call; none: there is no index, or Python has to look at it.
std::vector<uint64_t> places_of(py::handle index, size_t batch) {
  std::vector<uint64_t> places;
  if (PyLong_CheckExact(index.ptr())) {
    if (batch == 1) places.push_back(low_word(index));
    return places;
  }
  const bool several = PyList_CheckExact(index.ptr()) || PyTuple_CheckExact(index.ptr()) ||
                       PyRange_Check(index.ptr());
  if (!several || PyObject_Length(index.ptr()) != static_cast<Py_ssize_t>(batch)) return places;
  for (py::handle own : index) {
    if (!PyLong_CheckExact(own.ptr())) return {};
    places.push_back(low_word(own));
  }
  return places;
}

// A tensor as a tv_tensor of the type of another: torchvision's own method, if it has one.
py::object wrapped(const py::object& tensor, const py::object& like,
                   const py::object& canvas = py::none()) {
  py::dict fields;
  if (!canvas.is_none()) fields["canvas_size"] = canvas;
  const py::object type = py::type::of(like);
  if (py::hasattr(type, "wrap")) return type.attr("wrap")(tensor, like, **fields);
  return python().tv_wrap(tensor, like, **fields);
}

}  // namespace

std::vector<SampleKey> Pipeline::draw_keys(py::handle chain, py::handle generator, py::handle index,
                                           py::handle epoch, size_t batch) const {
  const py::object seed = chain.attr("seed");
  std::vector<SampleKey> keys;
  keys.reserve(batch);
  if (generator.is_none() && PyLong_CheckExact(seed.ptr()) &&
      (epoch.is_none() || PyLong_CheckExact(epoch.ptr()))) {
    const std::vector<uint64_t> places = places_of(index, batch);
    for (uint64_t place : places) {
      keys.push_back({low_word(seed), epoch.is_none() ? 0 : low_word(epoch), place});
    }
    if (!places.empty()) return keys;
    const py::object calls = index.is_none() ? py::object(chain.attr("_calls")) : py::none();
    if (!calls.is_none()) {  // the call has a number, from whose key its samples count
      const py::tuple number = calls.attr("next")(epoch);
      const uint64_t key =
          call_key(low_word(seed), low_word(number[0]), low_word(number[1]), low_word(number[2]));
      for (uint64_t i = 0; i < batch; ++i) keys.push_back({key, 0, i});
      return keys;
    }
  }
  const bool is_plain = seed.is_none() && generator.is_none() && index.is_none() && epoch.is_none();
  if (is_plain) {
    const uint64_t key = low_word(python().fresh_key(generator));
    for (uint64_t i = 0; i < batch; ++i) keys.push_back({key, 0, i});
    return keys;
  }
  const py::tuple drawn = python().key_of(chain, generator, index, epoch, batch);
  const uint64_t first = low_word(drawn[0]), second = low_word(drawn[1]);
  for (py::handle own : drawn[2]) keys.push_back({first, second, low_word(own)});
  return keys;
}

namespace {

// Python has to run the call.
py::tuple refused() { return py::make_tuple(false, py::none()); }

// The same, by keys that are drawn already: as (seed, epoch, indices).
py::tuple refused(const std::vector<SampleKey>& keys) {
  py::list indices;
  for (const SampleKey& key : keys) indices.append(key.index);
  return py::make_tuple(false, py::make_tuple(keys[0].seed, keys[0].epoch, indices));
}

// A dict, or a tuple as a list.
py::object copy_of(py::handle holder) {
  PyObject* const own = holder.ptr();
  PyObject* const copy = PyDict_Check(own) ? PyDict_Copy(own) : PySequence_List(own);
  if (copy == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(copy);
}

}  // namespace

py::object Pipeline::file_pass_for(py::handle chain) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (file_pass_) return file_pass_;
  }
  const py::object made = python().file_pass(chain);
  const std::lock_guard<std::mutex> lock(mutex_);
  return file_pass_ = made;
}

namespace {

// What a call returns that C++ has done; `recorded` may be null.
py::tuple done(py::handle chain, const py::object& result, const Recorded* recorded) {
  if (recorded == nullptr) return py::make_tuple(true, result);
  const auto batch = static_cast<py::ssize_t>(recorded->sizes.size() / 2);
  const py::array_t<int64_t> sizes = array_of(recorded->sizes, {batch, 2});
  return py::make_tuple(true,
                        py::make_tuple(result, python().recorded(chain, recorded->params, sizes)));
}

}  // namespace

py::tuple Pipeline::run_file(py::handle chain, py::handle sample, py::handle generator,
                             py::handle index, py::handle epoch, bool record) {
  const py::object file_pass = file_pass_for(chain);
  if (file_pass.is_none()) return refused();
  Call call;
  call.outline = outlines_.find(sample, [&] { return python().outline_of(chain, sample); });
  if (!call.outline || (!call.outline->targets.empty() && !moves_targets())) return refused();
  py::object content = py::reinterpret_borrow<py::object>(sample);
  if (!call.outline->is_alone()) {
    call.holders = holders_of(*call.outline, sample);
    content = value_of(call.outline->image, call.holders);
  }
  if (!is_buffer(content)) return refused();
  const std::vector<SampleKey> keys = draw_keys(chain, generator, index, epoch, 1);
  Recorded recorded;
  std::vector<ChainPlan> plans;
  py::object image =
      load_file_image(file_pass, content, keys[0], &plans, record ? &recorded : nullptr);
  if (!image) return refused(keys);
  if (options_.has_image_type) image = python().as_type(chain, image, call.outline->image.name);
  const py::object result = moved_beside(&call, std::move(plans), image);
  return result ? done(chain, result, record ? &recorded : nullptr) : refused(keys);
}

py::object Pipeline::moved_beside(Call* call, std::vector<ChainPlan> plans,
                                  const py::object& image) const {
  const Canvas& source = plans[0].samples[0].source;
  AugmentImage whole = {};
  whole.height = static_cast<int64_t>(source.height);
  whole.width = static_cast<int64_t>(source.width);
  call->images.all.push_back(whole);
  call->plans = std::move(plans);
  if (!call->holders.empty() &&
      !read_targets(*call->outline, call->holders, call->images, &call->targets)) {
    return py::object();
  }
  return takes_plans(call) ? rebuilt(*call, image) : py::object();
}

py::object Pipeline::follow(py::handle chain, py::handle sample, const py::list& plans,
                            const py::object& image, const py::object& whole) {
  if (!moves_targets()) return py::none();
  Call call;
  call.outline = outlines_.find(sample, [&] { return python().outline_of(chain, whole()); });
  if (!call.outline || call.outline->is_alone()) return py::none();
  call.holders = holders_of(*call.outline, sample);
  std::vector<ChainPlan> own;
  for (py::handle plan : plans) own.push_back(plan.cast<const PlanObject&>().plan);
  const py::object result = moved_beside(&call, std::move(own), image);
  return result ? result : py::none();
}

bool Pipeline::draw(const std::vector<SampleKey>& keys, bool record, Call* call) const {
  const Images& images = call->images;
  call->plans = call->passes->draw(keys, images.sizes(), images.channels, options_.exact,
                                   record ? &call->drawn : nullptr);
  return takes_plans(call);
}

bool Pipeline::takes_plans(Call* call) const {
  for (const ChainPlan& plan : call->plans) {
    const GeometryState& at = plan.samples[0];
    if (!call->targets.empty() && !at.is_identity() && at.projective) return false;
  }
  const std::vector<GeometryState>& samples = call->plans.back().samples;
  const Canvas size = samples[0].canvas;
  for (const GeometryState& at : samples) {
    // A batch of several sizes is an error.
    if (at.canvas.height != size.height || at.canvas.width != size.width) return false;
  }
  call->height = static_cast<int64_t>(size.height);
  call->width = static_cast<int64_t>(size.width);
  return call->height > 0 && call->width > 0;
}

void Pipeline::drop_boxes(const Call& call, std::vector<py::object>* moved,
                          std::vector<py::object>* seen, std::vector<py::object>* copies) const {
  const auto at = static_cast<size_t>(call.outline->boxes);
  const py::object keep = large_rows((*moved)[at], call.targets[at].move.format,
                                     options_.least_side, options_.least_area);
  if (!keep) return;
  for (size_t i = 0; i < moved->size(); ++i) {
    if (i != at && !call.targets[i].entry->per_box) continue;
    (*moved)[i] = selected_entries((*moved)[i], keep);
    if ((*seen)[i]) (*seen)[i] = selected_entries((*seen)[i], keep);
  }
  for (const Entry& entry : call.outline->labels) {
    if (entry.holder != call.targets[at].entry->holder) continue;
    const py::object value = value_of(entry, call.holders);
    if (!has_entries(value)) continue;
    (*copies)[entry.holder][entry.key] = selected_entries(value, keep);
  }
}

py::object Pipeline::rebuilt(const Call& call, const py::object& image) const {
  if (call.holders.empty()) return image;
  const Outline& outline = *call.outline;
  std::vector<const ChainPlan*> movers;
  for (const ChainPlan& plan : call.plans) {
    if (!plan.samples[0].is_still()) movers.push_back(&plan);
  }
  if (movers.empty()) movers.push_back(&call.plans[0]);
  std::vector<py::object> copies;
  for (const py::object& holder : call.holders) copies.push_back(copy_of(holder));
  copies[outline.image.holder][outline.image.key] = image;
  const py::tuple size = py::make_tuple(call.height, call.width);
  std::vector<py::object> moved, seen(call.targets.size());
  for (size_t i = 0; i < call.targets.size(); ++i) {
    const Target& target = call.targets[i];
    moved.push_back(target.restored(
        move_target(*target.entry, target.view, target.tensor, movers, target.move, &seen[i])));
    seen[i] = target.restored(seen[i]);
  }
  if (options_.drops_boxes && outline.boxes >= 0) drop_boxes(call, &moved, &seen, &copies);
  for (size_t i = 0; i < call.targets.size(); ++i) {
    const Target& target = call.targets[i];
    const Entry& entry = *target.entry;
    py::object own = moved[i];
    if (!target.is_plain()) {
      own = entry.target == TargetKind::kMask ? wrapped(own, target.like)
                                              : wrapped(own, target.like, size);
    }
    copies[entry.holder][entry.key] = own;
    if (seen[i]) {
      copies[entry.holder][py::str(entry.key.cast<std::string>() + "_visible")] = seen[i];
    }
  }
  for (size_t i = 0; i < outline.nested.size(); ++i) {
    copies[0][py::int_(outline.nested[i])] = copies[i + 1];
  }
  return outline.is_dict ? copies[0] : py::object(py::tuple(copies[0]));
}

py::tuple Pipeline::run(py::handle chain, py::handle sample, py::handle generator, py::handle index,
                        py::handle epoch, bool record) {
  if (is_within_another() || observers_active()) return refused();
  if (options_.reads_files) return run_file(chain, sample, generator, index, epoch, record);
  Call call;
  if (!walk(chain, sample, &call)) return refused();
  const Images& images = call.images;
  const size_t batch = images.all.size();
  const std::vector<SampleKey> keys = draw_keys(chain, generator, index, epoch, batch);
  if (!draw(keys, record, &call)) return refused(keys);
  const std::vector<Stage>& stages = call.passes->stages();
  const bool on_device = is_device(images.device) && runs_on_device(stages, call.each_plan());
  if (images.device != kOnCpu && !on_device) return refused(keys);

  const Stage& last = call.last();
  const int64_t channels = last.channels, height = call.height, width = call.width;
  std::vector<int64_t> shape = {channels, height, width};
  std::array<int64_t, 3> strides = {height * width, width, 1};
  if (options_.channels_last) {
    shape = {height, width, channels};
    strides = {1, width * channels, channels};
  }
  if (images.in_batch) shape.insert(shape.begin(), static_cast<int64_t>(batch));
  TensorView made = {};
  py::object moved = empty_tensor(shape, torch_dtype(last.dtype),
                                  device_of(images.owners[0], images.device), &made);
  if (options_.channels_last) moved = moved.attr("movedim")(-1, -3);
  const int64_t size = channels * height * width;
  if (on_device) {
    run_on_device_of(images.owners[0], images.device, stages, call.each_plan(), images.all,
                     images.dtype, {made.data, {size, strides[0], strides[1], strides[2]}});
  } else {
    const int64_t bytes = size * element_size(last.dtype);
    std::vector<StridedData> to;
    for (size_t i = 0; i < batch; ++i) {
      to.push_back({static_cast<char*>(made.data) + static_cast<int64_t>(i) * bytes,
                    {strides[0], strides[1], strides[2]}});
    }
    prefer_large_pages(made.data, bytes * static_cast<int64_t>(batch));
    call.run(to);
  }

  if (options_.has_image_type) {
    moved = python().as_type(chain, moved, call.name);
  } else if (!is_plain_tensor(images.first) && is_tensor(images.first)) {
    moved = wrapped(moved, images.first);
  }
  const py::object result = rebuilt(call, moved);
  if (!record) return done(chain, result, nullptr);
  const Recorded recorded = {call.passes->unpacked(call.drawn, static_cast<py::ssize_t>(batch)),
                             images.sizes()};
  return done(chain, result, &recorded);
}

py::object Pipeline::load(py::handle chain, py::handle sample, py::handle seed, py::handle epoch,
                          py::handle index, py::object image, const py::object& memory) {
  if (options_.has_image_type || observers_active()) return py::none();
  Call call;
  if (!walk(chain, sample, &call) || call.images.in_batch) return py::none();
  if (call.images.device != kOnCpu) return py::none();  // batch memory is the CPU's
  const py::handle first = call.images.first;
  if (is_tensor(first) && !is_plain_tensor(first)) return py::none();  // it keeps its type
  const SampleKey key = {low_word(seed), low_word(epoch), low_word(index)};
  if (!draw({key}, false, &call)) return py::none();
  const Stage& last = call.last();
  const ImageShape shape = {last.channels, call.height, call.width};
  TensorView view = {};
  if (!view_image(image, shape, last.dtype, &view)) {
    image = image_memory(memory, 0, shape, last.dtype, &view);
  }
  call.run({strides_of(view)});
  return py::make_tuple(rebuilt(call, image), image);
}

void bind_pipeline(py::module_& m) {
  m.def("observers_active", &observers_active);
  py::class_<Pipeline>(m, "Pipeline")
      .def(py::init([](const py::dict& kinds, const py::object& layout, bool frames, bool indices,
                       bool exact, bool moves_targets, bool clips_boxes, bool drops_boxes,
                       double least_side, double least_area, bool pads, bool pure_targets,
                       int64_t mask_fill, int64_t other_mask_fill, double keypoint_shift,
                       bool has_image_type, bool reads_files, bool channels_last) {
             return std::make_unique<Pipeline>(
                 kinds, PipelineOptions{layout, frames, indices, exact, moves_targets, clips_boxes,
                                        drops_boxes, least_side, least_area, pads, pure_targets,
                                        mask_fill, other_mask_fill, keypoint_shift, has_image_type,
                                        reads_files, channels_last});
           }),
           py::kw_only(), py::arg("kinds"), py::arg("layout"), py::arg("frames"),
           py::arg("indices"), py::arg("exact"), py::arg("moves_targets"), py::arg("clips_boxes"),
           py::arg("drops_boxes"), py::arg("least_side"), py::arg("least_area"), py::arg("pads"),
           py::arg("pure_targets"), py::arg("mask_fill"), py::arg("other_mask_fill"),
           py::arg("keypoint_shift"), py::arg("has_image_type"), py::arg("reads_files"),
           py::arg("channels_last"))
      .def("run", &Pipeline::run)
      .def("follow", &Pipeline::follow)
      .def("load", &Pipeline::load);
}

}  // namespace visops
