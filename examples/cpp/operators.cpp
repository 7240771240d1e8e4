// Calls operators of visops as C++ functions.
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <visops/ops.h>

#include <exception>
#include <iostream>

namespace {

// Keeps the best of boxes that overlap by more than a half.
void suppress() {
  float corners[] = {0, 0, 10, 10, 1, 1, 11, 11, 20, 20, 30, 30};
  float scores[] = {0.8f, 0.9f, 0.7f};
  const at::Tensor kept =
      visops::nms(at::from_blob(corners, {3, 4}), at::from_blob(scores, {3}), 0.5);
  std::cout << "nms keeps boxes";
  for (int64_t i = 0; i < kept.numel(); ++i) std::cout << ' ' << kept.const_data_ptr<int64_t>()[i];
  std::cout << '\n';
}

// Shifts an image to the right by one pixel: the matrix says where each pixel comes from.
void shift() {
  const at::Tensor image = at::arange(4, at::kFloat).reshape({1, 1, 1, 4});
  float matrix[] = {1, 0, -1, 0, 1, 0};
  const at::Tensor shifted =
      visops::affine(image, at::from_blob(matrix, {1, 2, 3}), {1, 4}, "bilinear", "replicate");
  std::cout << "affine gives pixels";
  for (int64_t i = 0; i < 4; ++i) std::cout << ' ' << shifted.const_data_ptr<float>()[i];
  std::cout << '\n';
}

// Pools a region of a map to 2 x 2 values.
void pool() {
  const at::Tensor map = at::arange(64, at::kFloat).reshape({1, 1, 8, 8});
  float box[] = {0, 1, 1, 5, 5};  // image, corners
  const at::Tensor pooled = visops::roi_align(map, at::from_blob(box, {1, 5}), {2, 2});
  std::cout << "roi_align gives bins";
  for (int64_t i = 0; i < 4; ++i) std::cout << ' ' << pooled.const_data_ptr<float>()[i];
  std::cout << '\n';
}

// Errors name the operator, the argument, what came and what is allowed.
void fail() {
  const at::Tensor boxes = at::arange(12, at::kFloat).reshape({4, 3});
  try {
    visops::nms(boxes, boxes.select(1, 0), 0.5);
  } catch (const std::exception& error) {
    std::cout << "an error says: " << error.what() << '\n';
  }
}

}  // namespace

int main() {
  const c10::InferenceMode guard;
  suppress();
  shift();
  pool();
  fail();
}
