// What one pass does to each sample of a batch: transforms add to a plan before any pixel is
// touched. No pixel is read here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/chain/geometry.h"
#include "core/chain/pixel_operation.h"

namespace visops {

// ITU-R BT.601's luma, rounded as in torchvision and Pillow: the weights add up to 0.9999.
constexpr double kGrey[3] = {0.2989, 0.587, 0.114};
constexpr int64_t kMostColorChannels = 4;

using ColorMatrix = std::array<double, kMostColorChannels*(kMostColorChannels + 1)>;  // C x (C + 1)

// v' = A v + a, and the share of the grey mean that a contrast adds: by factor c it is
// v' = c v + (1 - c) m, where m is the grey mean of the image at that point. A plan doesn't know m.
struct ColorStep {
  ColorMatrix matrix = {};
  ColorMatrix before = {};  // the part of the step that comes before the mean is taken
  double weight = 0.0;      // of the mean, in every channel; 0: it is not needed
};

// A colour step of all samples.
struct ColorSteps {
  std::vector<ColorStep> samples;  // [batch]
  bool has_before = false;
  int64_t moves = 0;              // the geometry calls that came before
  std::vector<GeometryState> at;  // [batch] where means are taken; empty where none can be

  bool takes_means() const;
};

struct ChainPlan {
  int64_t batch, channels;
  bool exact;                          // never show again what a step's canvas has cut off
  std::vector<GeometryState> samples;  // [batch]
  std::vector<ColorSteps> colors;
  std::vector<std::vector<double>> erased;  // each [batch, 4] x1, y1, x2, y2, or empty rectangles
  std::vector<std::vector<PixelOperation>> operations;  // [batch], each in turn; or empty
  std::vector<uint8_t> modes;     // [batch] which of the pass's interpolations each takes; or empty
  std::vector<uint8_t> left_out;  // [batch] to which the next steps don't apply; or empty
  int64_t moves = 0;              // geometry calls so far
  int64_t image = 0;              // which of each sample's images it is for
  bool clamps = false;            // whether colours are clamped to [0, 1]

  // Channels that a change of colours sees: those of images with more than it may mix are one by
  // one.
  int64_t color_channels() const { return channels > kMostColorChannels ? 1 : channels; }

  // sizes: [batch, 2] heights and widths
  ChainPlan(const int64_t* sizes, int64_t batch, int64_t channels, bool exact);
};

// One sample's part of a plan, for one of its frames.
ChainPlan plan_of_sample(const ChainPlan& plan, size_t sample, int64_t frame = 0);

// The plan of all frames of its samples, or of another image of theirs: each frame is a sample.
ChainPlan plan_of_frames(const ChainPlan& plan, int64_t frames);

// A sample's operations on one of its frames.
std::vector<PixelOperation> operations_of(const ChainPlan& plan, size_t sample, int64_t frame);

// The plan of one sample, as one transform adds to it.
class PlanBuilder {
 public:
  // The transform's colour steps and rectangles begin after so many.
  PlanBuilder(ChainPlan& plan, int64_t sample, size_t colors, size_t erased);

  const Canvas& canvas() const { return state_.canvas; }
  int64_t channels() const { return plan_.channels; }
  bool exact() const { return plan_.exact; }

  // Geometry: what GeometryState says.
  void scale(double x_scale, double y_scale, double x_shift, double y_shift, const Canvas& after,
             bool cuts = true);
  void shift(double x, double y, const Canvas& after, bool cuts = true);
  void affine(const double (&m)[6], const Canvas& after);
  void perspective(const double (&m)[9], const Canvas& after);
  // Steps of a kind have a `before` for all samples or for none, and likewise a weight. What a
  // step `clamps` follows from its kind alone, so that samples don't depend on each other.
  void color(const ColorMatrix& matrix, bool clamps = true);
  void color(const ColorMatrix& matrix, double weight, const ColorMatrix* before = nullptr);
  // v' = scale v + shift, clamped, for images of any number of channels.
  void color_alike(double scale, double shift);
  void erase(double x1, double y1, double x2, double y2);
  // Which of the pass's interpolations the sample takes.
  void interpolation(uint8_t number);
  // Its geometry, if it has any, is a call of its own: targets follow that.
  void pixels(const PixelOperation& operation);

  // Adds what applies to this sample only on a condition.
  template <class Add>
  void add_if(bool condition, const Add& add) {
    const GeometryState before = state_;
    const bool outside = left_out_;
    left_out_ = outside || !condition;
    add();
    if (!condition) state_.skip(before);
    left_out_ = outside;
  }

 private:
  void count_move();
  ColorSteps& next_color(bool alike = false);

  ChainPlan& plan_;
  GeometryState& state_;
  int64_t sample_;
  size_t color_, erase_;
  bool left_out_;
};

ColorMatrix identity_color(int64_t channels);

}  // namespace visops
