// Passes of chains whose transforms are steps: drawn in one call.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/chain/run/passes.h"
#include "core/chain/step.h"
#include "python/bindings.h"
#include "python/chain/plan.h"
#include "python/torch_api.h"

namespace visops {

namespace py = pybind11;

// A step's parameters as arrays by name, each with a first dimension of `batch`, of numbers
// [batch, num_params].
py::dict unpacked_params(const ChainStep& step, const double* numbers, py::ssize_t batch);

// Fields by name: numbers, or sequences of such. None stands for a field that is missing.
StepFields read_fields(const py::dict& given);

// The lower 64 bits of a Python number.
uint64_t low_word(py::handle number);

// The key of a call without an index, by the number that its worker gives it.
uint64_t call_key(uint64_t seed, uint64_t epoch, uint64_t worker, uint64_t number);

// What determines a sample's uniform numbers.
struct SampleKey {
  uint64_t seed, epoch, index;
};

// What one transform has drawn.
struct Drawn {
  std::vector<double> numbers;  // of a step, [batch, num_params]
  py::object params;            // of a transform written in Python, by name
};

class Chain {
 public:
  using Numbers = std::vector<double>;

  // Steps, each as (step, place of its first uniform number). In the place of a step may stand how
  // many numbers a transform written in Python draws.
  Chain(const py::list& steps, const std::vector<std::string>& interpolations,
        const std::string& padding_mode, Numbers fill, bool antialias, bool saturates, bool window);

  // Draws all transforms and adds them to a plan; `drawn`, if it is not null, gets the parameters
  // of each. Those written in Python are drawn by `in_python`, a function of a transform's place, a
  // plan and its uniform numbers; without any, Python isn't touched.
  void draw(ChainPlan& plan, std::vector<Uniforms>& uniforms, std::vector<Drawn>* drawn,
            py::handle in_python) const;

  size_t num_steps() const { return steps_.size(); }
  bool calls_python() const;
  // A step's parameters as Python has them.
  py::object unpacked(size_t i, const Drawn& drawn, py::ssize_t batch) const;
  // Colours [B, 1, C, C + 1] of images on the CPU, grey means included. For a plan of colours that
  // is not exact.
  py::array_t<double> colors(const PlanObject& self, py::handle images,
                             const std::string& dtype) const;
  const Sampling& sampling() const { return sampling_; }

 private:
  Sampling sampling_;
  struct Member {
    StepPointer step;  // null: Python draws it
    int64_t first, uniforms;
  };
  std::vector<Member> steps_;
};

// The passes of a chain, and who draws them.

// What draws a pass.
struct Drawing {
  std::shared_ptr<const Chain> chain;
  py::object in_python;  // draws its transforms that are written in Python: Chain::draw
};

class Passes {
 public:
  // Passes as Python has them: tuples of a Chain, what a Stage has besides, and `in_python`.
  explicit Passes(const py::list& passes);

  const std::vector<Stage>& stages() const { return stages_; }

  // A plan for each pass on images of these sizes, [B, 2] heights and widths. `drawn`, if it is not
  // null, gets the parameters of all transforms in turn.
  std::vector<ChainPlan> draw(const std::vector<SampleKey>& keys, std::vector<int64_t> sizes,
                              int64_t channels, bool exact,
                              std::vector<Drawn>* drawn = nullptr) const;
  // Whether drawing calls Python.
  bool call_python() const;
  // The parameters of all transforms in turn, of a batch of so many.
  py::list unpacked(const std::vector<Drawn>& drawn, py::ssize_t batch) const;

 private:
  std::vector<Stage> stages_;
  std::vector<Drawing> drawings_;  // of each
};

// Adds the images of a view, one or a batch's. False: they have no pixels.
bool append_images(const TensorView& view, bool channels_last, std::vector<AugmentImage>* images);

// The sides of an image [C, H, W]; -1: any.
using ImageShape = std::array<int64_t, 3>;

// Looks at a tensor that is to hold such an image. False: it can't, or is none.
bool view_image(py::handle tensor, const ImageShape& shape, DType dtype, TensorView* view);
StridedData strides_of(const TensorView& image);
// A tensor for an image, which `memory`, a function of a view's number, shape and dtype, returns.
py::object image_memory(const py::object& memory, size_t number, const ImageShape& shape,
                        DType dtype, TensorView* view);

}  // namespace visops
