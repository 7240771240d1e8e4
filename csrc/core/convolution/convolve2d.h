// Convolution of two-dimensional arrays: what the fronts and kernels share.
//
// NOTE [ Convolution's sums ]
// Every call becomes a correlation: to flip the kernel, the front negates its strides.
//   output[i, j] = sum over m, n of kernel[m, n] * extended input[start_y + i + m, start_x + j + n]
// Sums start at 0 and go by ascending m, then ascending n; each product is rounded before it is
// added. The order is the same on every device, instruction set and thread count. Halves are summed
// in float32, integers modulo 2^bits. Each complex term adds, in this order:
//   re += k.re * x.re,  re -= k.im * x.im,  im += k.re * x.im,  im += k.im * x.re
// Elements beyond the input, the fill value included, are multiplied like any other: an infinite
// weight has the same effect there as inside.
#pragma once

#include "core/dispatch/kernel_stub.h"
#include "core/images/sampling.h"
#include "core/numbers/arithmetic.h"

namespace visops {

// A plane; strides in elements, which may be 0 or negative.
struct ConvolvePlane {
  int64_t height, width;
  int64_t row_stride, column_stride;
};

// The leading dimensions; an operand may be repeated along one (stride 0).
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
    const int64_t i = d == 0 ? entry : entry % batch.sizes[d];  // few have more than one
    if (d > 0) entry /= batch.sizes[d];
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
  // One element; zeros unless the boundary is kConstant.
  alignas(16) unsigned char fill[kLargestElement];

  void* output;  // [batch.count, output_height, output_width] contiguous
  int64_t output_height, output_width;
};

extern KernelStub<ConvolveParams> convolve2d_stub;

Padding parse_boundary(const char* op, const std::string& name);

// Bounds where the output begins and ends, so that no index overflows.
void check_extent(const char* op, const int64_t (&start)[2], const char* size_name,
                  const int64_t (&size)[2]);

// The shapes are for messages.
void check_planes(const char* op, const std::string& input_shape, const ConvolvePlane& input,
                  const std::string& kernel_shape, const ConvolvePlane& kernel, Padding boundary);

// Throws where the size of scratch memory would overflow.
void check_kernel_size(const char* op, const ConvolveParams& p);

}  // namespace visops
