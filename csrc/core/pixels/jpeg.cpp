#include "core/pixels/jpeg.h"

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/plain_kernel.h"

namespace visops {
namespace {

JpegTable scaled(const JpegTable& standard, int32_t percent) {
  JpegTable found = {};
  for (int i = 0; i < kJpegBlock; ++i) {
    found.divisor[i] = static_cast<uint8_t>(jpeg_divisor(standard.divisor[i], percent));
  }
  return found;
}

}  // namespace

KernelStub<JpegParams> jpeg_stub{"jpeg"};

const JpegTables& jpeg_standard_tables() {
  static constexpr JpegTables kTables = {
      {{16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,  //
        14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,  //
        18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,  //
        49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99}},
      {{17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99,  //
        24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,  //
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,  //
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99}}};
  return kTables;
}

void compress_as_jpeg(const PixelImage& image, int64_t quality) {
  const JpegTables& standard = jpeg_standard_tables();
  const int32_t percent = jpeg_percent(quality);
  run_plain(jpeg_stub, {image, {scaled(standard.luma, percent), scaled(standard.chroma, percent)}});
}

}  // namespace visops
