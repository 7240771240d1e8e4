// What the torch fronts of regions of interest share: tensors -> maps, boxes and bins.
#pragma once

#include <string>
#include <vector>

#include "core/roi/align.h"
#include "torch/tensor.h"

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
  void set_boxes(const Tensor& boxes, int64_t columns, const char* reference_name,
                 const Tensor& reference);
  void set_output_size(const std::vector<int64_t>& output_size);
  // The gradient of the bins, of the shape that the result has.
  void set_grad(const Tensor& grad);
  // Which sample of each bin: one to write, or one that was. Its address is for the operator to
  // set.
  Tensor empty_index(const Tensor& like, DType dtype, bool channels_last);
  void set_index(const Tensor& index, DType dtype, const Tensor& reference);
  // Where bins read about as many pixels as there are, copies features whose channels are not side
  // by side to where they are: for kernels whose lanes are channels, that is soon earned.
  void gather_channels();
  // Everything but memory; host boxes too.
  void check(const Tensor& boxes) const;
  Tensor empty_bins(const Tensor& like, bool channels_last);
  Tensor empty_boxes_gradient(const Tensor& boxes);
};

// Of one map, and of the gradient of maps: all but options, and what is allocated.
RoiCall call_on_map(const char* op, const Tensor& input, const Tensor& boxes, int64_t columns,
                    double scale);
RoiCall call_for_gradient(const char* op, const Tensor& grad, const Tensor& boxes, int64_t columns,
                          int64_t images);

RoiMap roi_map(const Tensor& tensor, double scale);
void check_four_dimensions(const char* op, const std::string& name, const Tensor& tensor);
void check_input_size(const char* op, const std::vector<int64_t>& input_size);
// Of a task that is a box, in the sense of kGrain: a bin reads about two pixels each way.
int64_t box_cost(const RoiAlignParams& p);

}  // namespace visops
