// JPEG files: their headers, and the pixels of a rectangle.
#pragma once

#include <cstddef>
#include <cstdint>

namespace visops::jpeg {

// What the header of a file says.
struct Header {
  int64_t height;       // of the pixels as they are stored
  int64_t width;        //
  int64_t components;   // 1: grey, 3: colour, 4: CMYK or YCCK
  int64_t orientation;  // 1 to 8, as in EXIF; 1 where the file says nothing
};

// Which pixels to decode. Rows and columns count stored pixels, after the reduction: the reduced
// image has ceil(height / reduction) rows and ceil(width / reduction) columns.
struct Request {
  int64_t reduction;  // 1, 2, 4 or 8: libjpeg decodes blocks of 8 x 8 to 8 / reduction squared
  int64_t top;
  int64_t left;
  int64_t height;
  int64_t width;
  int64_t channels;     // 3: RGB, 1: grey
  int64_t orientation;  // 1 to 8: how to turn the rectangle
};

// These throw Damaged, with libjpeg's reason.
Header read_header(const uint8_t* data, size_t length);

// Writes `out`: [height, width, channels] of the request, or [width, height, channels] for the
// orientations from 5, which swap the sides.
void decode(const uint8_t* data, size_t length, const Request& request, uint8_t* out);

}  // namespace visops::jpeg
