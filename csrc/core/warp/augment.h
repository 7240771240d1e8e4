// One-pass augmentation: what a valid problem is.
#pragma once

#include <vector>

#include "core/check.h"
#include "core/dispatch/threads.h"
#include "core/warp/affine.h"

namespace visops {

constexpr int kMaxColorChannels = 4;
constexpr int kMaxColorSteps = 8;
constexpr int kMaxAugmentChannels = 64;  // where fill, mean, std or the erase value is per channel

// One image of a list, or the first of a batch.
struct AugmentImage {
  const void* data;  // [channels, height, width]
  int64_t height, width;
  int64_t channel_stride, row_stride, column_stride;  // in elements
};

struct AugmentSample;  // core/warp/augment_segment.h

struct AugmentParams {
  AugmentImage first;          // of a batch; the others are image_batch_stride elements apart
  int64_t image_batch_stride;  // in elements
  const AugmentImage* list;    // [batch] a list of images, in host memory; null for a batch
  void* output;                // [batch, channels, output_height, output_width]
  Strides output_stride;
  int64_t batch, channels, output_height, output_width;
  DType dtype, output_dtype;  // uint8, float16, bfloat16, float32 or float64
  MatrixView matrix;
  int matrix_rows;  // 2 or 3
  Interpolation mode;
  Padding padding;
  bool antialias;        // not with nearest
  int64_t kinds;         // of samples that there are, a bit for each SampleKind; 0: not known
  bool integers;         // antialias of uint8 images: filter in integers where possible
  bool inverse_map;      // the matrix maps destination to source
  bool half_pixel;       // the matrix is in coordinates where pixel (0, 0)'s centre is (0.5, 0.5)
  bool clamp;            // to [0, 1] after every colour step
  const double* window;  // [batch, 4] x1, y1, x2, y2 where pixel (0, 0) covers 0 to 1; or null
  const double* color;   // [batch or 1, color_steps, channels, channels + 1]; or null
  bool color_shared;
  int64_t color_steps;
  const int64_t* erase;  // [batch, erase_count, 4] x1, y1, x2, y2 in the output, half-open; or null
  int64_t erase_count;
  int64_t value_count;  // 1: entry 0 of the arrays below is for all channels; else `channels`
  double fill[kMaxAugmentChannels];   // in the image's units
  double scale[kMaxAugmentChannels];  // output = scale x colour + offset: mean, std, full scales
  double offset[kMaxAugmentChannels];
  double erase_value[kMaxAugmentChannels];  // in the output's units
  double input_scale;                       // brings an element to a full scale of 1
  AugmentSample* samples;                   // [batch] on the device, where the caller has them
};

extern KernelStub<AugmentParams> augment_stub;

// d loss / d image, matrix and colour, from `forward.output` (the incoming gradient, in
// output_dtype). Gradients that are not wanted are null.
struct AugmentBackwardParams {
  AugmentParams forward;  // a batch, not a list; output_dtype is floating
  void* grad_image;       // [batch, channels, height, width]; float32, or float64 for float64
  Strides grad_image_stride;
  double* grad_matrix;    // [batch, matrix_rows, 3]; each sample's share where the matrix is shared
  double* grad_color;     // [batch, color_steps, channels, channels + 1]; likewise
  double* row_sums;       // [batch, output_height, row_sum_count] scratch of kernels
  int64_t row_sum_count;  // 6 for the matrix, plus the elements of a sample's colour matrices
};

extern KernelStub<AugmentBackwardParams> augment_backward_stub;

// The index of a channel's fill, scale, offset and erase value.
VISOPS_FN int64_t value_index(const AugmentParams& p, int64_t channel) {
  return p.value_count == 1 ? 0 : channel;
}

VISOPS_FN AugmentImage augment_image(const AugmentParams& p, int64_t sample) {
  AugmentImage image = p.first;
  image.data = static_cast<const char*>(p.first.data) +
               sample * p.image_batch_stride * element_size(p.dtype);
  return image;
}

// What the front does with an AugmentParams before a kernel sees it.

// Per-channel numbers as the caller gave them.
struct AugmentValues {
  const std::vector<double>&fill, &mean, &std, &erase_value;
};

// Sizes, dtypes, modes and per-channel numbers. Reads no tensor data, allocates nothing.
void check_augment(const char* op, const AugmentParams& params, const AugmentValues& values);

// Matrices, windows, colours and rectangles. Reads host memory.
void check_augment_data(const char* op, const AugmentParams& params);

// Copies the numbers, with mean, std and the dtypes' full scales folded into one scale and offset.
void set_values(AugmentParams& params, const AugmentValues& values);

// The element that stands for 1.0.
double full_scale(DType dtype);

// The colour steps of one sample.

// The colour steps of one sample, in the accumulation type.
template <class Acc>
struct ColorPlan {
  Acc step[kMaxColorSteps][kMaxColorChannels][kMaxColorChannels + 1];
};

template <class Acc>
VISOPS_FN Acc color_element(const AugmentParams& p, int64_t sample, int64_t step, int64_t row,
                            int64_t column) {
  const int64_t c = p.channels;
  const int64_t matrix = (p.color_shared ? 0 : sample * p.color_steps) + step;
  const double v = p.color[(matrix * c + row) * (c + 1) + column];
  // Pixels come in the image's units; the first step brings them to a full scale of 1.
  return static_cast<Acc>(step == 0 && column < c ? v * p.input_scale : v);
}

template <class Acc>
VISOPS_FN void load_color_plan(const AugmentParams& p, int64_t sample, ColorPlan<Acc>* plan) {
  for (int64_t k = 0; k < p.color_steps; ++k) {
    for (int64_t i = 0; i < p.channels; ++i) {
      for (int64_t j = 0; j <= p.channels; ++j) {
        plan->step[k][i][j] = color_element<Acc>(p, sample, k, i, j);
      }
    }
  }
}

template <class Acc>
VISOPS_HOT_FN Acc clamp_unit(Acc v) {
  const Acc above = v < static_cast<Acc>(0) ? static_cast<Acc>(0) : v;  // NaN stays
  return above > static_cast<Acc>(1) ? static_cast<Acc>(1) : above;
}

// Augmentations without tensors.

// Checks a problem, and runs it.
inline void run_augment(AugmentParams& p, const AugmentValues& values, const Threads& threads) {
  check_augment("augment", p, values);
  check_augment_data("augment", p);
  set_values(p, values);
  run_on_cpu(augment_stub, p, threads);
}

// Warps one image to another, whose strides are given, of its size, channels and dtype.
inline void warp_image(const AugmentImage& from, int64_t channels, DType dtype,
                       const double* matrix, Interpolation mode, const std::vector<double>& fill,
                       void* to, const Strides& strides, const Threads& threads) {
  AugmentParams p = {};
  p.batch = 1;
  p.channels = channels;
  p.first = from;
  p.dtype = p.output_dtype = dtype;
  p.output = to;
  p.output_height = from.height;
  p.output_width = from.width;
  p.output_stride = strides;
  p.matrix = {matrix, DType::kFloat64, true, 0, 3, 1};
  p.matrix_rows = 2;
  p.mode = mode;
  p.padding = Padding::kConstant;
  p.half_pixel = true;
  const std::vector<double> none, zero = {0.0};
  run_augment(p, {fill, none, none, zero}, threads);
}

// The tensors that come with images to augment: which shapes they may have, and what follows from
// them. A shape is any container of sizes.

template <class Shape>
void check_matrix_shape(const char* op, const AugmentParams& p, const Shape& shape) {
  const size_t rank = shape.size();
  const bool shaped = (rank == 2 || rank == 3) && shape[rank - 1] == 3 &&
                      (shape[rank - 2] == 2 || shape[rank - 2] == 3);
  require(shaped, op, "matrix has shape ", shape_text(shape),
          ", must be [2, 3], [3, 3], [batch, 2, 3] or [batch, 3, 3]");
  require(rank == 2 || shape[0] == p.batch, op, "matrix has batch ", shape[0],
          ", images have batch ", p.batch);
}

// Call check_matrix_shape() before.
template <class Shape, class Steps>
void set_matrix(const char* op, AugmentParams& p, const void* data, DType dtype, const Shape& shape,
                const Steps& strides) {
  require(is_floating(dtype), op, "matrix has dtype ", dtype_name(dtype),
          ", must be a floating type");
  const size_t rank = shape.size();
  p.matrix = {
      data, dtype, rank == 2, rank == 3 ? strides[0] : 0, strides[rank - 2], strides[rank - 1]};
  p.matrix_rows = static_cast<int>(shape[rank - 2]);
}

template <class Shape>
void set_window(const char* op, AugmentParams& p, const void* data, const Shape& shape) {
  require(shape.size() == 2 && shape[0] == p.batch && shape[1] == 4, op, "window has shape ",
          shape_text(shape), ", must be [batch, 4] with batch ", p.batch);
  p.window = static_cast<const double*>(data);
}

template <class Shape>
void set_color(const char* op, AugmentParams& p, const void* data, const Shape& shape) {
  const bool shaped = shape.size() == 4 && (shape[0] == p.batch || shape[0] == 1) &&
                      shape[2] == p.channels && shape[3] == p.channels + 1;
  require(shaped, op, "color has shape ", shape_text(shape), ", must be [batch, steps, ",
          p.channels, ", ", p.channels + 1, "] with batch ", p.batch, " or 1");
  require(shape[1] >= 1 && shape[1] <= kMaxColorSteps, op, "color has ", shape[1],
          " steps, must be 1 to ", kMaxColorSteps);
  p.color = static_cast<const double*>(data);
  p.color_shared = shape[0] != p.batch || p.batch == 1;
  p.color_steps = shape[1];
}

template <class Shape>
void set_erase(const char* op, AugmentParams& p, const void* data, const Shape& shape) {
  require(shape.size() == 3 && shape[0] == p.batch && shape[2] == 4, op, "erase has shape ",
          shape_text(shape), ", must be [batch, rectangles, 4] with batch ", p.batch);
  p.erase = static_cast<const int64_t*>(data);
  p.erase_count = shape[1];
}

}  // namespace visops
