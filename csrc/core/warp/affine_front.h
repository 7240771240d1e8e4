// What both fronts do with an AffineParams before a kernel sees it.
#pragma once

#include <algorithm>

#include "core/images/image_front.h"
#include "core/warp/affine.h"

namespace visops {

// A height or width, which `what` names.
void check_side(const char* op, const char* what, int64_t value);

// Sizes, dtype and mode, fill. Reads no tensor data, allocates nothing.
void check_affine(const char* op, const AffineParams& params);

// Requires every matrix to be finite and, if it is to be inverted, not singular. Reads host memory.
void check_matrices(const char* op, const AffineParams& params);

// Kernels carry at most kMaxFill fills: a wider per-channel fill runs in groups of channels.
// `output_size`: bytes of an element of the output.
template <class Params, class Body>
void for_each_fill_group(Params p, int64_t output_size, const double* fill, int64_t count,
                         const Body& body) {
  const int64_t size = element_size(p.dtype);
  const int64_t channels = p.channels;
  const int64_t group = count <= kMaxFill ? channels : kMaxFill;
  const auto* image = static_cast<const char*>(p.image);
  auto* output = static_cast<char*>(p.output);
  for (int64_t first = 0; first < channels; first += group) {
    p.channels = std::min(group, channels - first);
    p.fill_count = count == 1 ? 1 : p.channels;
    for (int64_t i = 0; i < p.fill_count; ++i) p.fill[i] = fill[count == 1 ? 0 : first + i];
    p.image = image + first * p.image_stride.channel * size;
    p.output = output + first * p.output_stride.channel * output_size;
    body(p);
  }
}

}  // namespace visops
