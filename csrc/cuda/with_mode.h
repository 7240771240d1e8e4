// An interpolation that is known at run time, as a constant for templates.
#pragma once

#include <type_traits>

#include "core/images/sampling.h"

namespace visops {

// call(mode), with the interpolation as a std::integral_constant. In host code and in kernels: what
// is called must be for the same.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class Call>
VISOPS_FN auto with_mode(Interpolation mode, const Call& call) {
  switch (mode) {
    case Interpolation::kNearest:
      return call(std::integral_constant<Interpolation, Interpolation::kNearest>());
    case Interpolation::kBilinear:
      return call(std::integral_constant<Interpolation, Interpolation::kBilinear>());
    default: return call(std::integral_constant<Interpolation, Interpolation::kBicubic>());
  }
}

}  // namespace visops
