// What the torch fronts of regions of interest share: tensors -> a checked RoiAlignParams.
//
// A RoiCall comes out of one function complete: everything that can be checked before memory is
// allocated has been, boxes in host memory too. What is missing is memory for results; the
// functions below allocate it, and with_index() and the like name it to the kernels.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/roi/align.h"
#include "core/roi/crops.h"
#include "torch/tensor.h"

namespace visops {

using Sizes = std::vector<int64_t>;

// [K, columns]: batch index, x1, y1, x2, y2; with six columns rotated boxes, whose numbers are for
// the operator to check.
struct BoxesArgument {
  const Tensor& tensor;
  int64_t columns = 5;
};

// Which samples are taken. One scale for each map; the rule chooses between several.
struct RoiSampling {
  std::vector<double> scales;
  int64_t ratio = -1;
  bool aligned = false;
  RoiLevels level_rule = {};
};

// Maps that are read, from the finest, and the name of their argument: `features` is a list.
struct MapsArgument {
  const char* name;
  std::vector<Tensor> tensors;
  bool is_list = false;
};

struct RoiCall {
  const char* op;
  RoiAlignParams params;
  std::vector<Tensor> held;  // copies of arguments that `params` points into
};

// For a result of maps: bins, or their index.
RoiCall call_on_maps(const char* op, const MapsArgument& maps, const BoxesArgument& boxes,
                     const RoiSampling& sampling, const Sizes& output_size);
// For a result of maps and the gradient of their bins.
RoiCall call_on_maps_and_grad(const char* op, const MapsArgument& maps, const BoxesArgument& boxes,
                              const RoiSampling& sampling, const Tensor& grad);
// For the gradient of maps, [images, channels of grad, sizes[i]] each. They have no memory yet.
RoiCall call_for_maps(const char* op, const Tensor& grad, const BoxesArgument& boxes,
                      const RoiSampling& sampling, int64_t images,
                      const std::vector<std::pair<int64_t, int64_t>>& sizes);
// ... of one map of that size; its channels are for check_channels().
RoiCall call_for_map(const char* op, const Tensor& grad, const BoxesArgument& boxes,
                     const RoiSampling& sampling, const Sizes& input_size);
// Throws for too many samples where they are taken one by one, `ratio` squared of them in each bin:
// for maxima, and for rotated boxes (`what`). Means sum along one axis, then along the other.
void check_sample_grid(const char* op, int64_t ratio, const char* what);
// Throws unless the map has `channels` channels.
void check_channels(const char* op, const Sizes& input_size, int64_t channels);

// Bins of the call's maps, [K, C, *output_size], and an index beside them.
Tensor empty_bins(const RoiCall& call, const Tensor& like);
Tensor empty_index(const RoiCall& call, const Tensor& like, DType dtype);
// Throws unless boxes can have a gradient.
Tensor empty_boxes_gradient(const RoiCall& call, const Tensor& boxes);
// Throws unless `index` has the shape of the call's bins, and the device of `reference`.
void check_index(const RoiCall& call, const Tensor& index, DType dtype, const char* reference_name,
                 const Tensor& reference);

// The parameters with memory.
RoiAlignParams with_bins(RoiAlignParams params, const Tensor& bins);
RoiAlignParams with_index_strides(RoiAlignParams params, const Tensor& index);
RoiAlignParams with_index(RoiAlignParams params, const Tensor& index);
RoiAlignParams with_map(RoiAlignParams params, int64_t level, const Tensor& map);
RoiAlignParams with_boxes_gradient(RoiAlignParams params, const Tensor& gradient);

// Turns maps to channels_last if bins read about as many pixels as there are: kernels that compute
// neighbouring channels as vectors soon win that time back.
void gather_channels(RoiCall& call);

void check_four_dimensions(const char* op, const std::string& name, const Tensor& tensor);

// What the torch fronts of cropping and pasting share.

void check_images(const char* op, const char* name, const Tensor& images);
Strides strides_of_images(const Tensor& images);
CropBoxes crop_boxes(const char* op, const Tensor& boxes);
Interpolation parse_crop_interpolation(const char* op, const std::string& name);
// Memory for CropMaps, on the device of `like`.
Tensor empty_maps(const char* op, const Tensor& like, int64_t count);

}  // namespace visops
