// The passes of a chain on one image of the CPU, one after another, without the interpreter.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "python/chain/chain.h"
#include "python/torch_api.h"

namespace visops {

// Bytes that are not initialised, and kept for the next image: new pages cost as much as decoding a
// small photo.
class Buffer {
 public:
  uint8_t* of_size(size_t size) {
    if (size > capacity_) {
      bytes_.reset(new uint8_t[size]);
      capacity_ = size;
    }
    return bytes_.get();
  }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t capacity_ = 0;
};

// One pass. All but the first take what the one before made, contiguous.
struct Stage {
  std::shared_ptr<const Chain> chain;
  bool by_values;  // pixel operations, in place; else geometry and colours into another image
  std::vector<double> mean, std, erase_value;
  DType dtype;           // that it makes
  int64_t channels;      // of its result: those of its image, or another number of equal ones
  py::object in_python;  // draws its transforms that are written in Python: Chain::draw
};

class Passes {
 public:
  explicit Passes(std::vector<Stage> stages) : stages_(std::move(stages)) {}

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
  // Runs them on an image [C, H, W], which stays as it is; `plans` holds one for each. `to` must be
  // contiguous if the last pass is by values.
  void run(const std::vector<const ChainPlan*>& plans, const AugmentImage& image, DType dtype,
           const StridedData& to, Threads threads) const;
  // The same for the images of a batch, or `frames` for each of its samples.
  void run_each(const std::vector<const ChainPlan*>& plans, const std::vector<AugmentImage>& images,
                DType dtype, const std::vector<StridedData>& to, int64_t frames) const;

 private:
  std::vector<Stage> stages_;
};

// The sides of an image [C, H, W]; -1: any.
using ImageShape = std::array<int64_t, 3>;

// Looks at a tensor that is to hold such an image. False: it can't, or is none.
bool view_image(py::handle tensor, const ImageShape& shape, DType dtype, TensorView* view);
StridedData strides_of(const TensorView& image);
// A tensor for an image, which `memory`, a function of a view's number, shape and dtype, returns.
py::object image_memory(const py::object& memory, size_t number, const ImageShape& shape,
                        DType dtype, TensorView* view);

// Reads passes as Python has them: tuples of Stage's members.
std::vector<Stage> read_stages(const py::list& passes);

}  // namespace visops
