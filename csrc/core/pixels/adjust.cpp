#include "core/pixels/adjust.h"

#include <cmath>

#include "core/check.h"
#include "core/pixels/dropouts.h"
#include "core/pixels/filters/filter.h"
#include "core/pixels/filters/neighbourhoods.h"
#include "core/pixels/noise.h"
#include "core/pixels/shading.h"

namespace visops {

namespace {

constexpr int64_t kMostPixels = int64_t{1} << 31;  // GPUs count them in 32 bits
constexpr double kMostNoise = 1e6;  // with white at 1: 32 bits hold what is added to bytes
constexpr double kMostNumber = 1e30;
constexpr double kMostLevels = 255.0;
constexpr double kLeastScale = 1e-6;
constexpr double kLeastSigma = 1e-6;
constexpr double kMostExponent = 1000.0;
constexpr int64_t kMostWhole = int64_t{1} << 50;  // of sides and shifts, for images of any size

bool takes_more(PixelKind kind) {
  return is_noise(kind) || kind == PixelKind::kHsv || kind == PixelKind::kClahe ||
         is_small_filter(kind) || is_dropout(kind) || kind == PixelKind::kUnsharpMask ||
         kind == PixelKind::kToneCurve || kind == PixelKind::kBleach || is_shading(kind) ||
         kind == PixelKind::kMorphology;
}

bool is_adjustment(PixelKind kind) {
  const bool plain = kind >= PixelKind::kIdentity && kind <= PixelKind::kSolarizeAt;
  return (plain && kind != PixelKind::kAffine) || takes_more(kind) ||
         kind == PixelKind::kSolarizeAdd || kind == PixelKind::kMedianBlur ||
         kind == PixelKind::kDownscale || kind == PixelKind::kBoxBlur || kind == PixelKind::kJpeg;
}

// Throws, naming op, where image `i` has numbers that its operation can't have.
void check_numbers(const char* op, size_t i, const PixelOperation& operation) {
  const double amount = operation.amount;
  const double* const more = operation.more;
  const auto within = [&](const char* what, double value, double least, double most) {
    require(value >= least && value <= most, op, what, " of image ", i, " is ", value,
            ", must be between ", least, " and ", most);
  };
  const auto odd = [&](const char* what, double value, int64_t least, int64_t most) {
    const bool is_odd = value >= static_cast<double>(least) && value <= static_cast<double>(most) &&
                        std::fmod(value, 2.0) == 1.0;
    require(is_odd, op, what, " of image ", i, " is ", value, ", must be an odd whole number from ",
            least, " to ", most);
  };
  const auto whole = [&](const char* what, double value, int64_t least, int64_t most) {
    const bool fits = value >= static_cast<double>(least) && value <= static_cast<double>(most);
    require(fits && std::floor(value) == value, op, what, " of image ", i, " is ", value,
            ", must be a whole number from ", least, " to ", most);
  };
  const auto check_key = [&](double key) {
    require(key >= 0.0 && key < 1.0, op, "the key of image ", i, " is ", key,
            ", must be in [0, 1)");
  };
  switch (operation.kind) {
    case PixelKind::kGaussianNoise:
      within("the standard deviation", amount, 0.0, kMostNoise);
      within("the mean", more[0], -kMostNoise, kMostNoise);
      return check_key(more[2]);
    case PixelKind::kShotNoise:
      within("the scale", amount, 1e-6, kMostNoise);
      return check_key(more[0]);
    case PixelKind::kSaltAndPepper:
      within("the share of pixels", amount, 0.0, 1.0);
      within("the share of white", more[0], 0.0, 1.0);
      return check_key(more[1]);
    case PixelKind::kHsv:
      within("the shift of the hue", amount, -1.0, 1.0);
      within("the gain of the saturation", more[0], -1.0, kMostNoise);
      within("the gain of the value", more[1], -1.0, kMostNoise);
      within("the shift of the saturation", more[2], -kMostLevels, kMostLevels);
      return within("the shift of the value", more[3], -kMostLevels, kMostLevels);
    case PixelKind::kDropChannels:
      whole("the fewest channels", more[0], 0, kMostWhole);
      whole("the most channels", more[1], 0, kMostWhole);
      return check_key(more[2]);
    case PixelKind::kHoles:
      check_key(more[0]);
      whole("the fewest holes", more[1], 0, kMostHoles);
      whole("the most holes", more[2], 0, kMostHoles);
      within("the greatest height of a hole", more[4], 0.0, static_cast<double>(kMostWhole));
      within("the least height of a hole", more[3], 0.0, more[4]);
      within("the greatest width of a hole", more[6], 0.0, static_cast<double>(kMostWhole));
      within("the least width of a hole", more[5], 0.0, more[6]);
      return whole("the kind of fill", more[7], 0, 2);
    case PixelKind::kGridHoles:
      check_key(more[0]);
      within("the share of a cell", more[1], 0.0, 1.0);
      whole("the kind of grid", more[3], 0, 2);
      for (int k = 4; k < 6 && more[3] != 0.0; ++k) {
        const bool sides = more[3] == 1.0;
        whole(sides ? "the side of a cell" : "the number of cells", more[k], 1,
              sides ? kMostWhole : kMostGridCells);
      }
      for (int k = 6; k < 8; ++k) whole("the shift", more[k], -kMostWhole, kMostWhole);
      return whole("the kind of fill", more[8], 0, 2);
    case PixelKind::kBoxBlur: return odd("the side of the blur", amount, 1, kMostBlurSide);
    case PixelKind::kUnsharpMask:
      within("the share of the difference", amount, 0.0, 1.0);
      odd("the side of the blur", more[0], 1, kMostBlurSide);
      within("the standard deviation of the blur", more[1], 0.0, kMostNumber);
      return within("the threshold", more[2], 0.0, kMostNumber);
    case PixelKind::kMedianBlur: return odd("the side of the median", amount, 1, kMostMedianSide);
    case PixelKind::kMotionBlur:
      odd("the side of the motion", amount, 3, kMostMotionSide);
      within("the angle of the motion", more[0], -kMostNumber, kMostNumber);
      within("the direction of the motion", more[1], -1.0, 1.0);
      within("the shift of the motion along x", more[2], -1.0, 1.0);
      return within("the shift of the motion along y", more[3], -1.0, 1.0);
    case PixelKind::kEmboss:
      within("the share of the embossed image", amount, 0.0, 1.0);
      return within("the strength", more[0], 0.0, kMostNumber);
    case PixelKind::kSharpen:
      within("the share of the sharpened image", amount, 0.0, 1.0);
      return within("the lightness", more[0], 0.0, kMostNumber);
    case PixelKind::kClahe:
      within("the clip limit", amount, 0.0, kMostNumber);
      whole("the number of rows of tiles", more[0], 1, kMostClaheTiles);
      return whole("the number of columns of tiles", more[1], 1, kMostClaheTiles);
    case PixelKind::kDownscale: return within("the scale", amount, kLeastScale, 1.0);
    case PixelKind::kJpeg: return whole("the quality", amount, 1, 100);
    case PixelKind::kToneCurve:
      within("the standard deviation of the handles", amount, 0.0, 1.0);
      whole("whether each channel has its own curve", more[0], 0, 1);
      return check_key(more[1]);
    case PixelKind::kBleach:
      within("the factor of the lightness", amount, 0.0, kMostNumber);
      return within("the greatest lightness", more[0], 0.0, 1.0);
    case PixelKind::kIllumination: {
      within("the strength of the light", amount, -1.0, 1.0);
      whole("the kind of light", more[0], 0, 2);
      const auto shade = static_cast<Shade>(static_cast<int32_t>(more[0]));
      if (shade == Shade::kSlope) return within("the angle", more[1], -kMostNumber, kMostNumber);
      if (shade == Shade::kCorner) return whole("the corner of the light", more[1], 0, 3);
      within("the place of the light", more[1], -kMostNumber, kMostNumber);
      within("the place of the light", more[2], -kMostNumber, kMostNumber);
      return within("the standard deviation of the light", more[3], kLeastSigma, kMostNumber);
    }
    case PixelKind::kMorphology:
      whole("whether it dilates", amount, 0, 1);
      whole("the width of the ellipse", more[0], 1, kMostEllipseSide);
      return whole("the height of the ellipse", more[1], 1, kMostEllipseSide);
    case PixelKind::kShadows:
      check_key(more[0]);
      whole("the number of shadows", amount, 0, kMostShadows);
      for (int k = 1; k < 5; ++k) within("the end of the shadows' place", more[k], 0.0, 1.0);
      whole("the number of corners", more[5], 3, kMostShadows);
      within("the greatest strength of a shadow", more[7], 0.0, 1.0);
      return within("the least strength of a shadow", more[6], 0.0, more[7]);
    case PixelKind::kAdvancedBlur:
      odd("the side of the blur", amount, 1, kMostSquareSide);
      for (int k = 0; k < 2; ++k) {
        within("the standard deviation of the blur", more[k], kLeastSigma, kMostNumber);
      }
      within("the angle of the blur", more[2], -kMostNumber, kMostNumber);
      within("the place of the exponent", more[3], 0.0, 1.0);
      within("the least exponent", more[4], 0.0, 1.0);
      within("the greatest exponent", more[5], 1.0, kMostExponent);
      within("the greatest factor of a weight", more[7], 0.0, kMostNumber);
      within("the least factor of a weight", more[6], 0.0, more[7]);
      return check_key(more[8]);
    default: return;
  }
}

}  // namespace

KernelStub<AdjustParams> adjust_stub("adjust_pixels");

std::vector<PixelOperation> adjust_operations(const char* op, int64_t batch,
                                              const std::vector<int64_t>& kinds,
                                              const std::vector<double>& amounts,
                                              const std::vector<double>& more) {
  const auto count = static_cast<size_t>(batch);
  require(kinds.size() == count, op, "kinds has ", kinds.size(),
          " numbers, must have one for each ", "of ", batch, " images");
  require(amounts.size() == count, op, "amounts has ", amounts.size(),
          " numbers, must have one for each of ", batch, " images");
  require(more.empty() || more.size() == count * kMoreNumbers, op, "more has ", more.size(),
          " numbers, must have none, or ", kMoreNumbers, " for each of ", batch, " images");
  std::vector<PixelOperation> operations(count);
  for (size_t i = 0; i < count; ++i) {
    const auto kind = static_cast<PixelKind>(kinds[i]);
    require(is_adjustment(kind), op, "kinds[", i, "] is ", kinds[i],
            ", which is no operation that this operator has");
    require(is_finite(amounts[i]), op, "amounts[", i, "] is ", amounts[i], ", must be finite");
    PixelOperation& operation = operations[i];
    operation.kind = kind;
    operation.amount = amounts[i];
    require(!more.empty() || !takes_more(kind), op, "kinds[", i, "] is ", kinds[i],
            ", which takes numbers of `more`");
    for (size_t k = 0; k < kMoreNumbers && !more.empty(); ++k) {
      operation.more[k] = more[i * kMoreNumbers + k];
    }
    check_numbers(op, i, operation);
  }
  return operations;
}

void check_adjust(const char* op, const AdjustParams& p) {
  require(p.dtype == DType::kUInt8 || p.dtype == DType::kFloat32, op, "images have dtype ",
          dtype_name(p.dtype), ", must be uint8 or float32");
  require(p.height < kMostPixels && p.width < kMostPixels && p.pixels() < kMostPixels, op,
          "images have ", p.height, " rows and ", p.width,
          " columns, must have less than 2^31 pixels");
  const bool grey = p.channels == 1 || p.channels == 3;
  for (int64_t i = 0; i < p.batch; ++i) {
    const PixelKind kind = p.operations[i].kind;
    require(grey || kind != PixelKind::kContrast, op, "images have ", p.channels,
            " channels, must have 1 or 3 for a contrast");
    require(grey || kind != PixelKind::kJpeg, op, "images have ", p.channels,
            " channels, must have 1 or 3 for a JPEG");
    require(p.channels >= 3 || p.channels == 1 || kind != PixelKind::kSaturation, op,
            "images have ", p.channels, " channels, must have 1, 3 or more for a saturation");
  }
}

}  // namespace visops
