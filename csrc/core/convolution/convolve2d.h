// Convolution of two-dimensional arrays: what fronts and kernels share.
//
// NOTE [ Convolution's sums ]
// Every call becomes a correlation: where the kernel is to be flipped, the front turns its strides.
//   output[i, j] = sum over m, n of kernel[m, n] * extended input[start_y + i + m, start_x + j + n]
// beginning with 0, m ascending, for each m n ascending, each product rounded before it is added:
// one order on every device, instruction set and thread count. Halves are summed in float32,
// integers modulo their size. Of complex numbers, for each term in this order:
//   re += k.re * x.re,  re -= k.im * x.im,  im += k.re * x.im,  im += k.im * x.re
// What lies beyond the input (its fill value too) is multiplied like every other element, so that
// an infinite weight there gives what it gives within.
#pragma once

#include "core/arithmetic.h"
#include "core/kernel_stub.h"
#include "core/sampling.h"

namespace visops {

// Where a plane's elements are, in elements; strides may be 0 or negative.
struct ConvolvePlane {
  int64_t height, width;
  int64_t row_stride, column_stride;
};

// Leading dimensions, in which either operand may be repeated (stride 0).
constexpr int kMostConvolveDims = 6;
struct ConvolveBatch {
  int dims;
  int64_t count;  // product of the sizes
  int64_t sizes[kMostConvolveDims];
  int64_t strides[2][kMostConvolveDims];  // of each operand, in elements
};

struct ConvolveOffsets {
  int64_t first, second;  // operands
};

VISOPS_FN ConvolveOffsets offsets_of(const ConvolveBatch& batch, int64_t entry) {
  ConvolveOffsets offsets = {0, 0};
  for (int d = batch.dims; d-- > 0;) {
    const int64_t i = entry % batch.sizes[d];
    entry /= batch.sizes[d];
    offsets.first += i * batch.strides[0][d];
    offsets.second += i * batch.strides[1][d];
  }
  return offsets;
}

// Forward: (input, kernel) -> output. The batch's operands are input and kernel.
struct ConvolveParams {
  const void* input;
  ConvolvePlane input_plane;
  const void* kernel;
  ConvolvePlane kernel_plane;
  ConvolveBatch batch;
  Arithmetic kind;
  Padding boundary;  // kConstant, kCircular or kSymmetric
  int64_t start_y, start_x;
  // An element; 0 where the boundary isn't kConstant.
  alignas(16) unsigned char fill[kLargestElement];

  void* output;  // [batch.count, output_height, output_width] contiguous
  int64_t output_height, output_width;
};

extern ScheduledStub<ConvolveParams> convolve2d_stub;

Padding parse_boundary(const char* op, const std::string& name);

// Where the output begins and ends: no index may overflow.
void check_extent(const char* op, const int64_t (&start)[2], const char* size_name,
                  const int64_t (&size)[2]);

// Shapes are for errors.
void check_planes(const char* op, const std::string& input_shape, const ConvolvePlane& input,
                  const std::string& kernel_shape, const ConvolvePlane& kernel, Padding boundary);

// Throws where sizes of scratch memory would overflow.
void check_kernel_size(const char* op, const ConvolveParams& p);

}  // namespace visops
