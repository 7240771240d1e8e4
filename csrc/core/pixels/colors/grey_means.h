// Grey means of small pictures, times weights, added to offsets of colour matrices: what a contrast
// takes (NOTE [ Grey means ], core/chain/color_program.h).
#pragma once

#include "core/chain/plan.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"

namespace visops {

constexpr int kGreyChannels = 3;  // of a picture, that count
constexpr int64_t kMostMeanPixels = 1 << 16;

struct GreyMeansParams {
  const uint8_t* pictures;  // [batch, channels, pixels]
  const double* colors;     // [batch, steps, channels, channels + 1]
  const double* weights;    // [batch, steps, channels]
  double* output;           // like colors
  int64_t batch, channels, pixels, steps;
  double scale;  // from a sum of grey levels to their mean, with white at 1
};

extern KernelStub<GreyMeansParams> grey_means_stub;

// Throws where a problem is none.
void check_grey_means(const char* op, const GreyMeansParams& p);

// From a sum of as many grey levels to their mean, with white at 1.
inline double mean_scale(int64_t pixels) { return 1.0 / (255.0 * static_cast<double>(pixels)); }

// A picture's mean from the sums of its channels, of which there are 1, 3 or more.
VISOPS_FN double grey_mean(const int64_t sums[kGreyChannels], int64_t channels, double scale) {
  constexpr double red = kGrey[0], green = kGrey[1], blue = kGrey[2];
  double grey = static_cast<double>(sums[0]);
  if (channels > 1) {
    grey = grey * red + static_cast<double>(sums[1]) * green + static_cast<double>(sums[2]) * blue;
  }
  return grey * scale;
}

// How many channels of a picture count.
VISOPS_FN int grey_channels(int64_t channels) { return channels > 1 ? kGreyChannels : 1; }

// The mean of a picture [channels, pixels].
VISOPS_FN double mean_of_picture(const uint8_t* picture, int64_t channels, int64_t pixels,
                                 double scale) {
  int64_t sums[kGreyChannels] = {};
  for (int c = 0; c < grey_channels(channels); ++c) {
    for (int64_t i = 0; i < pixels; ++i) sums[c] += picture[c * pixels + i];
  }
  return grey_mean(sums, channels, scale);
}

// Element i of a sample's colours [steps, channels, channels + 1] with its mean added.
VISOPS_FN double color_with_mean(const double* colors, const double* weights, int64_t channels,
                                 int64_t i, double mean) {
  const int64_t row = i / (channels + 1);
  const bool is_offset = i - row * (channels + 1) == channels;
  return is_offset ? colors[i] + mean * weights[row] : colors[i];
}

}  // namespace visops
