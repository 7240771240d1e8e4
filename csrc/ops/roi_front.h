// What the torch fronts of regions of interest share: tensors -> maps, boxes and bins.
#pragma once

#include <string>
#include <vector>

#include "core/roi_align.h"
#include "ops/tensor.h"

namespace visops {

// A call on its way to RoiAlignParams. Tensors that its pointers lie in, where they are copies of
// the arguments, live as long as it does.
struct RoiCall {
  const char* op;
  const char* maps_name;  // for errors: the argument that has the maps
  RoiAlignParams params = {};
  std::vector<Tensor> held = {};

  // Adds a level. Features are copied unless their pixels or their channels are adjacent.
  void add_features(const std::string& name, const Tensor& features, double scale);
  // Adds a level of which the gradient is wanted, and allocates that.
  Tensor add_gradient(const Tensor& like, int64_t height, int64_t width, double scale,
                      bool channels_last);
  void set_boxes(const Tensor& boxes, const char* reference_name, const Tensor& reference);
  void set_output_size(const std::vector<int64_t>& output_size);
  // The gradient of the bins, of the shape that the result has.
  void set_grad(const Tensor& grad);
  // Which sample of each bin: one to write, or one that was.
  Tensor empty_index(const Tensor& like, bool channels_last);
  void set_index(const Tensor& index, const Tensor& reference);
  // Copies features whose channels are not side by side to where they are.
  void gather_channels();
  // Everything but memory; host boxes too.
  void check(const Tensor& boxes) const;
  Tensor empty_bins(const Tensor& like, bool channels_last);
  Tensor empty_boxes_gradient(const Tensor& boxes);
};

RoiMap roi_map(const Tensor& tensor, double scale);
RoiBoxes roi_boxes(const char* op, const Tensor& boxes, int64_t columns);
void check_four_dimensions(const char* op, const std::string& name, const Tensor& tensor);
// Itself where pixels of a row or channels of a pixel are adjacent, else a contiguous copy.
Tensor with_adjacent_elements(const Tensor& features);

}  // namespace visops
