// Images as they come back from a JPEG file: what fronts and kernels share.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/pixels/jpeg_values.h"
#include "core/pixels/operations.h"

namespace visops {

// ITU-T T.81, tables K.1 and K.2.
const JpegTables& jpeg_standard_tables();

struct JpegParams {
  PixelImage image;  // in place; of 1 channel, or 3 that are red, green and blue
  JpegTables tables;
};

// For one image, in the calling thread.
extern KernelStub<JpegParams> jpeg_stub;

// Quality: from 1 to 100.
void compress_as_jpeg(const PixelImage& image, int64_t quality);

}  // namespace visops
