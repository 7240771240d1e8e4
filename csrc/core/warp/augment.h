// One-pass augmentation: what a valid problem is.
#pragma once

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

}  // namespace visops
