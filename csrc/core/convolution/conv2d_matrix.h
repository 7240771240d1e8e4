// Elements of the matrices that a convolution multiplies: NOTE [ A convolution as a matrix product
// ]. A row or plane is a channel or, for complex elements, one part of a channel.
#pragma once

#include "core/convolution/conv2d.h"
#include "core/convolution/conv2d_element.h"

namespace visops {

// Size of the matrix of weights.
VISOPS_FN int64_t matrix_rows(const Conv2dParams& p) { return p.to_channels * conv_parts(p.kind); }
VISOPS_FN int64_t matrix_planes(const Conv2dParams& p) {
  return p.from_channels * conv_parts(p.kind);
}

// The factor of a number's part `plane_part` in part `row_part` of its product with `element`: (re,
// -im) for the real part, (im, re) for the imaginary one.
template <class Element>
VISOPS_FN typename Element::Value factor_of(const typename Element::Stored* element,
                                            int64_t row_part, int64_t plane_part) {
  if constexpr (Element::kParts == 1) {
    return conv_value(*element);
  } else {
    const typename Element::Value value = conv_value(element[row_part == plane_part ? 0 : 1]);
    return row_part < plane_part ? -value : value;
  }
}

// The weights of one kernel element and group begin at `at`.
template <class Element>
VISOPS_FN typename Element::Value weight_value(const Conv2dParams& p, int64_t row, int64_t plane,
                                               int64_t at) {
  constexpr int kParts = Element::kParts;
  const auto* weight = static_cast<const typename Element::Stored*>(p.weight);
  const int64_t element = at + row / kParts * p.weight_to + plane / kParts * p.weight_from;
  return factor_of<Element>(weight + element * kParts, row % kParts, plane % kParts);
}

template <class Element>
VISOPS_FN typename Element::Value bias_value(const Conv2dParams& p, int64_t group, int64_t row) {
  constexpr int kParts = Element::kParts;
  if (p.bias == nullptr) return typename Element::Value{};
  const int64_t channel = group * p.to_channels + row / kParts;
  const auto* bias = static_cast<const typename Element::Stored*>(p.bias);
  return conv_value(bias[channel * p.bias_stride * kParts + row % kParts]);
}

}  // namespace visops
