// A batch of images, each changed by a pixel operation of its own.
#pragma once

#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/pixels/operations.h"

namespace visops {

// The largest of what operations may ask for: sides of squares, rows or columns of tiles, holes,
// cells along a side of a grid, and shadows.
constexpr int64_t kMostMedianSide = 4095;
constexpr int64_t kMostMotionSide = 1023;
constexpr int64_t kMostSquareSide = 255;  // of kernels that are no product of two lines
constexpr int64_t kMostBlurSide = 4095;
constexpr int64_t kMostClaheTiles = 256;
constexpr int64_t kMostHoles = 4096;
constexpr int64_t kMostGridCells = 4096;
constexpr int64_t kMostShadows = 1000;  // and corners of each

struct AdjustParams {
  const void* images;  // [batch, channels, height, width], contiguous; uint8 or float32
  void* output;        // likewise
  DType dtype;
  int64_t batch, channels, height, width;
  const PixelOperation* operations;  // [batch], in host memory, as adjust_operations() makes them

  VISOPS_DEVICE int64_t pixels() const { return height * width; }
  VISOPS_DEVICE int64_t size() const { return channels * pixels(); }  // of an image
};

extern KernelStub<AdjustParams> adjust_stub;

// The operations that numbers name: of each image a kind, an amount and, unless `more` is empty,
// kMoreNumbers. Throws where there are none such, or not one for each image.
std::vector<PixelOperation> adjust_operations(const char* op, int64_t batch,
                                              const std::vector<int64_t>& kinds,
                                              const std::vector<double>& amounts,
                                              const std::vector<double>& more);

// Throws where a problem is none.
void check_adjust(const char* op, const AdjustParams& p);

}  // namespace visops
