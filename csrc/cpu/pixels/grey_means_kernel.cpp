// NOTE: A task is a picture. Sums are of integers, so their order does not matter.
#include "core/pixels/colors/grey_means.h"

namespace visops {
namespace {

void add_means(const GreyMeansParams& p, int64_t begin, int64_t end) {
  const int64_t rows = p.steps * p.channels, size = rows * (p.channels + 1);
  for (int64_t i = begin; i < end; ++i) {
    const uint8_t* const picture = p.pictures + i * p.channels * p.pixels;
    const double mean = mean_of_picture(picture, p.channels, p.pixels, p.scale);
    const double* const colors = p.colors + i * size;
    const double* const weights = p.weights + i * rows;
    for (int64_t k = 0; k < size; ++k) {
      p.output[i * size + k] = color_with_mean(colors, weights, p.channels, k, mean);
    }
  }
}

void grey_means_cpu(const GreyMeansParams& p, Workspace& workspace) {
  parallel_for(workspace, p.batch, 16,
               [&](int64_t begin, int64_t end) { add_means(p, begin, end); });
}

const bool registered = grey_means_stub.set(kIsaSlot, grey_means_cpu);

}  // namespace
}  // namespace visops
