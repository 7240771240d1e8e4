// The passes of a chain, and who draws them.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/chain/run/passes.h"
#include "python/chain/chain.h"
#include "python/torch_api.h"

namespace visops {

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
