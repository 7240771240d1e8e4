#include "core/pixels/colors/grey_means.h"

#include "core/check.h"

namespace visops {

KernelStub<GreyMeansParams> grey_means_stub("grey_means");

void check_grey_means(const char* op, const GreyMeansParams& p) {
  require(p.channels == 1 || p.channels == 3 || p.channels == 4, op, "pictures have ", p.channels,
          " channels, must have 1, 3 or 4");
  require(p.pixels >= 1 && p.pixels <= kMostMeanPixels, op, "pictures have ", p.pixels,
          " pixels, must have between 1 and ", kMostMeanPixels);
}

}  // namespace visops
