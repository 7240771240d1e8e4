// Clouds of random numbers: albumentations' form of diamonds and squares.
//
// NOTE [ Clouds ]
// A grid of 3 x 3 points is refined until it covers the image: points between those of a grid get
// the mean of four neighbours and noise, whose strength the roughness multiplies at each scale. A
// mean that is not positive leaves 0, and 0 lies beyond the grid. Each grid is stretched to [0, 1].
#pragma once

#include <cstdint>

namespace visops {

// How many random numbers they take: those of each grid, row by row, the coarsest first.
int64_t cloud_numbers(int64_t height, int64_t width);

// Writes clouds [height, width] in [0, 1] by `numbers` in [0, 1).
void make_clouds(const float* numbers, double roughness, int64_t height, int64_t width,
                 float* clouds);

}  // namespace visops
