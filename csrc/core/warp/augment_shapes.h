// The tensors that come with images to augment: which shapes they may have, and what follows from
// them. A shape is any container of sizes.
#pragma once

#include "core/check.h"
#include "core/warp/augment.h"

namespace visops {

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
