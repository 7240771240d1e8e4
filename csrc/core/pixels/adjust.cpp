#include "core/pixels/adjust.h"

#include "core/check.h"

namespace visops {

namespace {

constexpr int64_t kMostPixels = int64_t{1} << 31;  // GPUs count them in 32 bits

}  // namespace

ScheduledStub<AdjustParams> adjust_stub("adjust_pixels");

std::vector<PixelOperation> adjust_operations(const char* op, int64_t batch,
                                              const std::vector<int64_t>& kinds,
                                              const std::vector<double>& amounts) {
  const auto count = static_cast<size_t>(batch);
  require(kinds.size() == count, op, "kinds has ", kinds.size(),
          " numbers, must have one for each ", "of ", batch, " images");
  require(amounts.size() == count, op, "amounts has ", amounts.size(),
          " numbers, must have one for each of ", batch, " images");
  std::vector<PixelOperation> operations(count);
  for (size_t i = 0; i < count; ++i) {
    const auto kind = static_cast<PixelKind>(kinds[i]);
    const bool exists = kinds[i] >= 0 && kind <= PixelKind::kSolarizeAt;
    require(exists && kind != PixelKind::kAffine, op, "kinds[", i, "] is ", kinds[i],
            ", which is no operation of one number");
    require(is_finite(amounts[i]), op, "amounts[", i, "] is ", amounts[i], ", must be finite");
    operations[i].kind = kind;
    operations[i].amount = amounts[i];
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
    require(p.channels >= 3 || p.channels == 1 || kind != PixelKind::kSaturation, op,
            "images have ", p.channels, " channels, must have 1, 3 or more for a saturation");
  }
}

}  // namespace visops
