// Passes of chains whose transforms are steps: drawn in one call.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

#include "core/chain/run/pass.h"
#include "core/chain/step.h"
#include "python/chain/plan.h"
#include "python/strided_data.h"

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

}  // namespace visops
