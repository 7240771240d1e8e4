// What the fronts of operators on a batch of images share, where each result has its image's shape.
#pragma once

#include "core/check.h"
#include "torch/tensor.h"

namespace visops {

// Fills in dtype and sizes from images [B, C, H, W]; throws, naming op, for another shape.
template <class Params>
void read_images(const char* op, const Tensor& images, Params& p) {
  require(images.dim() == 4, op, "images have shape ", shape_text(images),
          ", must be [B, C, H, W]");
  p.dtype = dtype_of(op, "images", images);
  p.batch = images.size(0);
  p.channels = images.size(1);
  p.height = images.size(2);
  p.width = images.size(3);
}

// Runs the kernel on parameters that are checked, into a fresh tensor.
template <class Params>
Tensor run_on_images(const KernelStub<Params>& stub, const char* op, const Tensor& images,
                     Params& p) {
  const Tensor read = torch::stable::contiguous(images);
  const Tensor output =
      empty_tensor(op, "result", images, {p.batch, p.channels, p.height, p.width}, p.dtype);
  if (output.numel() == 0) return output;
  p.images = read.const_data_ptr();
  p.output = output.mutable_data_ptr();
  run(stub, op, p, images);
  return output;
}

}  // namespace visops
