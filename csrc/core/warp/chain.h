// Chains of random transforms: their parameters drawn and composed, for the samples of a batch.
//
// It is what ops/transforms (geometric.py, cropping.py, resizing.py, scaling.py, color.py,
// erasing.py, engine/plan.py) does in Python, with the same operations in the same order, so that
// both have the same bits. No pixel is read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace visops {

constexpr double kGrey[3] = {0.2989, 0.587, 0.114};  // GREY in engine/numbers.py
constexpr int kLargestColor = 12;  // elements of a colour matrix of three channels

// Rows of a colour matrix, C x (C + 1), for one channel or three.
using ColorMatrix = std::array<double, kLargestColor>;

// Where the pixels of one sample go, in the half-pixel convention.
struct Placement {
  double matrix[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0};
  bool projective = false;  // else the last row is 0, 0, 1
  double ties[2] = {};      // what nearest sampling adds to the shift: NOTE on ties in plan.py
  double height = 0.0, width = 0.0;  // of the canvas that the next transform receives

  void scale(double x_scale, double y_scale, double x_shift, double y_shift, double new_height,
             double new_width);
  void shift(double x, double y, double new_height, double new_width);
  void affine(const double (&m)[6]);
  void perspective(const double (&m)[9]);
};

// v' = A v + a, and the share of the grey mean that a contrast adds: engine/plan.py's Color.
struct ColorStep {
  ColorMatrix matrix = {};
  ColorMatrix before = {};  // what comes before the mean is taken
  bool has_before = false;
  double weight = 0.0;
  Placement at;  // where a mean is taken; set where the step may have one
};

// One sample's numbers while a chain is drawn.
struct Draft {
  Placement placement;
  ColorStep* colors;  // the next colour step
  int64_t* erased;    // the next rectangle: x1, y1, x2, y2
  int64_t channels;
};

class Uniforms;

// One transform of a chain. `numbers` are its arguments, in the order that chain_steps.cpp says.
struct ChainStep {
  using Run = bool (*)(const ChainStep& step, Uniforms& uniforms, Draft& draft);

  Run run;
  int64_t first;  // where its uniform numbers begin among a sample's
  std::vector<double> numbers;
  int colors, erases;  // how many entries it adds, on images of three channels
  int gray_colors;     // and on grey images

  double draw(Uniforms& uniforms, int64_t place) const;
};

// Throws std::invalid_argument for an unknown name, or for another count of numbers than its.
ChainStep chain_step(const std::string& name, int64_t first, std::vector<double> numbers);

struct ChainPlan {
  int64_t batch = 0, channels = 0, color_steps = 0, erase_steps = 0;
  std::vector<Placement> placements;  // [batch]
  std::vector<ColorStep> colors;      // [batch, color_steps]
  std::vector<int64_t> erased;        // [batch, erase_steps, 4]
};

// False where a transform refuses a sample, such as a crop that is larger than its image.
// sizes: [batch, 2] heights and widths; indices: [batch]
bool draw_chain(const std::vector<ChainStep>& steps, uint64_t seed, uint64_t epoch,
                const std::vector<uint64_t>& indices, const int64_t* sizes, int64_t channels,
                ChainPlan* plan);

// Takes the grey means [batch] at one colour step's placements. `prefix` [batch, C, C + 1], or
// null, is the colour up to there.
class GreyMeans {
 public:
  virtual ~GreyMeans() = default;
  virtual void take(const ChainPlan& plan, int64_t step, const double* prefix, double* means) = 0;
};

// Composes the colour steps into one matrix per sample, [batch, C, C + 1].
void compose_colors(const ChainPlan& plan, GreyMeans& grey, double* composed);

}  // namespace visops
