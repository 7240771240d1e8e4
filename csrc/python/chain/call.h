// What the functions of a pipeline share: a call, between its steps, and what they ask of Python.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/chain/moving.h"
#include "python/chain/pipeline.h"
#include "torch/threads.h"

namespace visops {

// What Python does with a call: ops/transforms/chain/compile.py.
struct PythonSide {
  py::object outline_of, passes_for, key_of, fresh_key, pixels_of, as_type, tv_wrap, count_of,
      recorded;
  py::object is_pil, outer_options, file_pass;

  PythonSide();
};

const PythonSide& python();

// What an entry of a sample holds.
py::object value_of(const Entry& entry, const std::vector<py::object>& holders);

// Whether labels of some boxes can be dropped without Python.
bool has_entries(py::handle labels);

// The images of a call: one, or those of a batch or a list.
struct Pipeline::Images {
  std::vector<AugmentImage> all;
  DType dtype = DType::kUInt8;
  int64_t channels = 0;
  int device = kOnCpu;
  bool in_batch = false;
  bool channels_last = false;      // of the last image that was read
  int rank = 0;                    // of a tensor or an array
  py::object first;                // what a result of type tv_tensor is like
  std::vector<py::object> owners;  // of their memory

  std::vector<int64_t> sizes() const {
    std::vector<int64_t> sides;
    for (const AugmentImage& image : all) {
      sides.push_back(image.height);
      sides.push_back(image.width);
    }
    return sides;
  }
};

// A target as it came, `like`, and its tensor or array.
struct Pipeline::Target {
  const Entry* entry;
  py::object like, tensor;
  TensorView view;
  TargetMove move;

  int64_t count() const { return view.rank == 0 ? 0 : view.shape[0]; }
  bool is_plain() const { return like.is(tensor); }
  // What has become of it in a tensor, as it came.
  py::object restored(const py::object& own) const {
    return own && py::isinstance<py::array>(like) && !own.is(like) ? own.attr("numpy")() : own;
  }
};

// One call, from its sample to its plans.
struct Pipeline::Call {
  std::shared_ptr<const Outline> outline;  // null: the sample is an image
  std::vector<py::object> holders;         // of its entries; none of an image by itself
  std::string name = "the sample";
  Images images;
  std::shared_ptr<const Passes> passes;
  std::vector<Target> targets;
  std::vector<Drawn> drawn;
  std::vector<ChainPlan> plans;
  int64_t height = 0, width = 0;  // of the result

  const Stage& last() const { return passes->stages().back(); }

  std::vector<const ChainPlan*> each_plan() const {
    std::vector<const ChainPlan*> pointers;
    for (const ChainPlan& plan : plans) pointers.push_back(&plan);
    return pointers;
  }

  // Runs the passes into images at these places.
  void run(const std::vector<StridedData>& to) const {
    int64_t work = last().channels * height * width * static_cast<int64_t>(to.size());
    for (const ChainPlan& plan : plans) {
      const Canvas& canvas = plan.samples[0].canvas;
      work += static_cast<int64_t>(canvas.height * canvas.width) * plan.channels * plan.batch;
    }
    run_unlocked(work, [&] {
      run_each_image(passes->stages(), each_plan(), images.all, images.dtype, to, 1,
                     torch_threads());
    });
  }
};

}  // namespace visops
