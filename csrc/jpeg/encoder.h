// Pixels compressed as JPEG files, by libjpeg-turbo with its default settings.
#pragma once

#include <cstdint>
#include <vector>

namespace visops::jpeg {

// pixels: [height, width, channels], 1 or 3 channels; quality from 1 to 100. Throws Damaged.
std::vector<uint8_t> encode(const uint8_t* pixels, int64_t height, int64_t width, int64_t channels,
                            int quality);

}  // namespace visops::jpeg
