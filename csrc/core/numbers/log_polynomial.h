// The polynomial of Cephes' logf, https://www.netlib.org/cephes.
#pragma once

#include "core/platform.h"

namespace visops {

// (ln(1 + r) - r + r^2 / 2) / r^3, of 1 + r in [sqrt(1/2), sqrt(2)).
VISOPS_HOT_FN float log_polynomial(float r) {
  float sum = 7.0376836292e-2f;
  sum = sum * r - 1.1514610310e-1f;
  sum = sum * r + 1.1676998740e-1f;
  sum = sum * r - 1.2420140846e-1f;
  sum = sum * r + 1.4249322787e-1f;
  sum = sum * r - 1.6668057665e-1f;
  sum = sum * r + 2.0000714765e-1f;
  sum = sum * r - 2.4999993993e-1f;
  return sum * r + 3.3333331174e-1f;
}

}  // namespace visops
