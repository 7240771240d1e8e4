#include "python/chain/chain.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>

#include "python/bindings.h"
#include "python/torch_api.h"
#include "torch/threads.h"

namespace visops {

std::vector<ChainPlan> Passes::draw(const std::vector<SampleKey>& keys, std::vector<int64_t> sizes,
                                    int64_t channels, bool exact, std::vector<Drawn>* drawn) const {
  std::vector<Uniforms> uniforms;
  uniforms.reserve(keys.size());
  for (const SampleKey& key : keys) uniforms.emplace_back(key.seed, key.epoch, key.index);
  std::vector<ChainPlan> plans;
  plans.reserve(stages_.size());
  for (size_t i = 0; i < stages_.size(); ++i) {
    plans.emplace_back(sizes.data(), static_cast<int64_t>(keys.size()), channels, exact);
    drawings_[i].chain->draw(plans.back(), uniforms, drawn, drawings_[i].in_python);
    int64_t* next = sizes.data();
    for (const GeometryState& at : plans.back().samples) {
      *next++ = static_cast<int64_t>(at.canvas.height);
      *next++ = static_cast<int64_t>(at.canvas.width);
    }
    channels = stages_[i].channels;
  }
  return plans;
}

py::list Passes::unpacked(const std::vector<Drawn>& drawn, py::ssize_t batch) const {
  py::list params;
  auto next = drawn.begin();
  for (const Drawing& own : drawings_) {
    for (size_t i = 0; i < own.chain->num_steps(); ++i) {
      params.append(own.chain->unpacked(i, *next++, batch));
    }
  }
  return params;
}

bool Passes::call_python() const {
  return std::any_of(drawings_.begin(), drawings_.end(),
                     [](const Drawing& own) { return own.chain->calls_python(); });
}

bool append_images(const TensorView& view, bool channels_last, std::vector<AugmentImage>* images) {
  const int channel = channels_last ? 1 : 3, row = channels_last ? 3 : 2;
  const int column = channels_last ? 2 : 1;
  const bool in_batch = view.rank == 4;
  const int64_t count = in_batch ? view.shape[0] : 1;
  const int64_t bytes = in_batch ? view.strides[0] * element_size(view.dtype) : 0;
  for (int64_t i = 0; i < count; ++i) {
    images->push_back({static_cast<const char*>(view.data) + i * bytes, view.side(row),
                       view.side(column), view.stride(channel), view.stride(row),
                       view.stride(column)});
  }
  return count > 0 && view.side(channel) > 0 && view.side(row) > 0 && view.side(column) > 0;
}

bool view_image(py::handle tensor, const ImageShape& shape, DType dtype, TensorView* view) {
  return is_plain_tensor(tensor) && view_tensor(tensor, view) && view->rank == 3 &&
         view->dtype == dtype &&
         std::equal(shape.begin(), shape.end(), view->shape.begin(),
                    [](int64_t wanted, int64_t side) { return wanted < 0 || wanted == side; });
}

StridedData strides_of(const TensorView& image) {
  return {image.data, {image.strides[0], image.strides[1], image.strides[2]}};
}

py::object image_memory(const py::object& memory, size_t number, const ImageShape& shape,
                        DType dtype, TensorView* view) {
  const py::tuple sides = py::make_tuple(shape[0], shape[1], shape[2]);
  py::object made = memory(number, sides, torch_dtype(dtype));
  if (!view_image(made, shape, dtype, view)) {
    throw std::invalid_argument("visops: memory for an image has another shape or dtype");
  }
  return made;
}

Passes::Passes(const py::list& passes) {
  for (py::handle each : passes) {
    const auto own = py::cast<py::tuple>(each);
    using Numbers = std::vector<double>;
    const auto chain = py::cast<std::shared_ptr<Chain>>(own[0]);
    drawings_.push_back({chain, own[7]});
    stages_.push_back({chain->sampling(), py::cast<bool>(own[1]), py::cast<Numbers>(own[2]),
                       py::cast<Numbers>(own[3]), py::cast<Numbers>(own[4]),
                       dtype_named(py::cast<std::string>(own[5])), py::cast<int64_t>(own[6])});
    if (stages_.back().channels < 1) {
      throw std::invalid_argument(
          "visops.transforms: an image has 0 channels, must have 1 or more");
    }
  }
  if (stages_.empty()) throw std::invalid_argument("there is no pass");
}

namespace {

AugmentImage image_of(const StridedData& data, const Canvas& size) {
  return {data.address,
          static_cast<int64_t>(size.height),
          static_cast<int64_t>(size.width),
          data.strides[0],
          data.strides[1],
          data.strides[2]};
}

std::vector<const ChainPlan*> plans_of(const py::list& given) {
  std::vector<const ChainPlan*> plans;
  for (py::handle each : given) plans.push_back(&py::cast<const PlanObject&>(each).plan);
  return plans;
}

// run_each_image(), with images and results as lists.
void run_each(const Passes& self, const py::list& plans, const py::list& images,
              const std::string& dtype, const py::list& outs, int64_t frames) {
  const std::vector<const ChainPlan*> whole = plans_of(plans);
  if (whole.empty() || images.size() != outs.size() || frames < 1) {
    throw std::invalid_argument("a plan per pass and a result per image are needed");
  }
  std::vector<AugmentImage> from;
  std::vector<StridedData> to;
  for (py::handle each : images) {
    const size_t sample = from.size() / static_cast<size_t>(frames);
    from.push_back(image_of(read_strided_data(each, 3), whole[0]->samples.at(sample).source));
  }
  for (py::handle each : outs) to.push_back(read_strided_data(each, 3));
  const DType type = dtype_named(dtype);
  const py::gil_scoped_release release;
  run_each_image(self.stages(), whole, from, type, to, frames, torch_threads());
}

// Adds an image [C, H, W], or those of a batch. False: it is not for a device's kernels.
bool add_images(py::handle images, std::vector<AugmentImage>* all, DType* dtype, int* device) {
  TensorView view = {};
  if (!is_plain_tensor(images) || !view_tensor(images, &view, true)) return false;
  if (view.rank < 3 || view.rank > 4) return false;
  if (!all->empty() && (view.dtype != *dtype || view.device != *device)) return false;
  *dtype = view.dtype;
  *device = view.device;
  return append_images(view, false, all);
}

// run_on_device() of images [N, C, H, W], or a list of images, into `out`; samples have one or more
// frames each. False: nothing has happened, and operators have to run.
bool run_batch(const Passes& self, const py::list& plans, py::handle images, py::handle out) {
  std::vector<const ChainPlan*> whole = plans_of(plans);
  std::vector<AugmentImage> from;
  DType dtype = DType::kUInt8;
  int device = kOnCpu;
  if (PyList_Check(images.ptr())) {
    for (py::handle each : images) {
      if (!add_images(each, &from, &dtype, &device)) return false;
    }
  } else if (!add_images(images, &from, &dtype, &device)) {
    return false;
  }
  TensorView to = {};
  if (!is_device(device) || !view_tensor(out, &to, true) || to.rank != 4) return false;
  if (!runs_on_device(self.stages(), whole)) return false;
  const auto frames = static_cast<int64_t>(from.size()) / whole.at(0)->batch;
  std::vector<ChainPlan> of_frames;
  of_frames.reserve(whole.size());
  for (const ChainPlan*& plan : whole) {
    if (frames == 1 && plan->image == 0) continue;
    of_frames.push_back(plan_of_frames(*plan, frames));
    plan = &of_frames.back();
  }
  run_on_device_of(out, device, self.stages(), whole, from, dtype,
                   {to.data, {to.strides[0], to.strides[1], to.strides[2], to.strides[3]}});
  return true;
}

}  // namespace

void bind_passes(py::module_& m) {
  py::class_<Passes, std::shared_ptr<Passes>>(m, "Passes")
      .def(py::init<const py::list&>())
      .def("run_batch", &run_batch)
      .def("run_each", &run_each);
}

}  // namespace visops
