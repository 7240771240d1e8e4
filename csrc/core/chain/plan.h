// What one pass does to each sample of a batch: transforms add to a plan before any pixel is
// touched. No pixel is read here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/chain/geometry.h"
#include "core/numbers/philox.h"

namespace visops {

// Operations on the pixels of one image that no matrix expresses. A sample of a chain takes a list
// of them, one after another (core/pixels).

enum class PixelKind {
  kIdentity,
  kAffine,      // matrix, half-pixel convention, source to destination
  kBrightness,  // amount: factor
  kContrast,    // factor
  kSaturation,  // factor
  kSharpness,   // factor: 0 blurs, 1 keeps
  kPosterize,   // bits
  kSolarize,    // threshold, as a share of white
  kAutocontrast,
  kEqualize,
  kInvert,
  kGamma,       // exponent
  kSolarizeAt,  // threshold, in the image's units
  // Noise, of a key in [0, 1): csrc/core/pixels/noise.h. Behind the amount, what `more` holds.
  kGaussianNoise,  // standard deviation, with white at 1; mean, whether it is clipped, key
  kShotNoise,      // scale; key
  kSaltAndPepper,  // share of pixels; share of white among them, key
  // Shift of the hue, in turns; gains of saturation and value, minus 1, and their shifts in levels.
  kHsv,
  kDropChannels,  // fill; fewest and most channels, key
  // fill; key, fewest and most holes, least and greatest heights and widths, as shares of the
  // image's below 1, kind of fill
  kHoles,
  // fill; key, share of a cell's sides, whether each hole has its own shift, kind of grid and its
  // two numbers, shifts x and y, kind of fill
  kGridHoles,
  // Neighbourhoods, mirrored at the rim.
  kBoxBlur,       // side
  kGaussianBlur,  // sigma; width and height of the kernel
  kMedianBlur,    // side
  kMotionBlur,    // side; angle in degrees, direction, shifts x and y
  kUnsharpMask,   // share; side, sigma, threshold in levels
  kEmboss,        // share; strength
  kSharpen,       // share; lightness
  kClahe,         // clip limit; rows and columns of tiles
  kDownscale,     // factor
  kSolarizeAdd,   // levels of 255 that are added below the middle one, 128
  kJpeg,          // quality
  kToneCurve,     // standard deviation of its handles; whether each channel has its own, key
  kBleach,        // factor of the lightness; below which lightness
  kAdvancedBlur,  // side; two sigmas, their angle, place and limits of the exponent, of noise, key
  kIllumination,  // strength; kind, its three numbers (core/pixels/shading.cpp), whether it darkens
  kShadows,  // their number; key, left, top, right, bottom as shares, corners, least and most dark
  kMorphology,  // whether it dilates; width and height of the ellipse
  kCount
};

constexpr int kMoreNumbers = 9;

struct PixelOperation {
  PixelKind kind;
  double amount = 0.0;
  double matrix[6] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
  double more[kMoreNumbers] = {};
};

// The same operation on another of a sample's images, or frames: noise of its own, from the
// sample's key. The rest is the same for all of them; number 0 is what was drawn.
inline PixelOperation of_image(PixelOperation operation, int64_t number) {
  const PixelKind kind = operation.kind;
  const int at = kind == PixelKind::kGaussianNoise   ? 2
                 : kind == PixelKind::kSaltAndPepper ? 1
                 : kind == PixelKind::kShotNoise     ? 0
                                                     : -1;
  if (at < 0 || number == 0) return operation;
  // Steps by an odd number reach every key of 53 bits once.
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
  const uint64_t key = key_of(operation.more[at]);
  const uint64_t moved = (key + static_cast<uint64_t>(number) * kStep) & ((uint64_t{1} << 53) - 1);
  operation.more[at] = static_cast<double>(moved) * 0x1p-53;
  return operation;
}

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
