// How a plan's colour steps become the matrices of one call of augment, without reading a pixel.
//
// NOTE [ Grey means ]
// A contrast adds a share of the grey mean of the image at its point of the chain. Who runs a plan
// takes these means, from pictures made with the geometry and colour steps up to there, one round
// after another; a later picture needs the means before it. All that a mean does is to move
// offsets, so a program lists by how much, and the CPU never needs the value of a mean that is on
// a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "core/chain/plan.h"

namespace visops {

// Colour matrices [batch, steps, C, C + 1]; mean k adds itself, times weights[k] [batch, steps, C],
// to their offsets.
struct ColorMatrices {
  int64_t steps = 0;
  std::vector<double> elements;
  std::vector<std::vector<double>> weights;
};

// One mean for each sample.
struct MeanRound {
  size_t step;                 // the plan's colour step whose `at` says where
  ColorMatrices before;        // what the pixels go through first; no steps: nothing
  std::vector<uint8_t> plain;  // [batch] whose pixels go through nothing, although others' do; or
                               // empty: the identity would clamp their values
};

struct ColorProgram {
  std::vector<MeanRound> rounds;
  ColorMatrices whole;
};

// A mean that needn't be exact is taken over a small picture of kMeanGrid x kMeanGrid points, one
// in each cell of a grid on the image. In the middle of each cell they would all hit the same phase
// of a regular picture, such as lines of text or a solar panel. So each row of points is shifted
// along x by its own share of a cell, and each column along y: point (i, j) lies at (i + (j + 1/2)
// / 32, j + (i + 1/2) / 32) cells, which is an affine map.
constexpr int64_t kMeanGrid = 32;

// Writes the map from the source to the picture, 2 or 3 rows of 3.
void write_mean_grid(const GeometryState& at, double* matrix);

// Composed into one step, or each step followed by a clamp where the plan is exact.
ColorProgram color_program(const ChainPlan& plan);

// Adds means [batch] of all rounds so far to the offsets.
std::vector<double> with_means(const ColorMatrices& colors, int64_t batch, int64_t channels,
                               const std::vector<std::vector<double>>& means);

}  // namespace visops
