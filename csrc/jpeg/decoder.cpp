// NOTE [ Decoding a rectangle ]
// Huffman codes have to be read from the start of the file, but only down to the rectangle's last
// row; of the rows above it, and the columns beside it, nothing else is computed.
// Columns: jpeg_crop_scanline starts at the block to the left, and treats the columns that it cuts
// off as if the image ended there. Where chroma has fewer samples than luma, that changes the
// pixels next to the cut, since each is interpolated between two samples. So the cut is a margin
// away from the rectangle. Rows: jpeg_skip_scanlines keeps the rows that the next ones need.
// Both are for images whose chroma has a sample per pixel, per two, or per two by two, as cameras
// and encoders write them. Any other is decoded down to the last row, and cut afterwards.
#include "jpeg/decoder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "jpeg/session.h"

namespace visops::jpeg {
namespace {

constexpr int kExif = JPEG_APP0 + 1;
constexpr unsigned kLongestMarker = 0xFFFF;
constexpr int64_t kRowsAtOnce = 4;  // as many as libjpeg ever has ready

// The bytes of an EXIF segment after its name: a TIFF file.
class Tiff {
 public:
  Tiff(const uint8_t* data, size_t length)
      : data_(data), length_(length), big_(length > 0 && data[0] == 'M') {}

  // The orientation in the first directory; 1 where there is none.
  int64_t orientation() const {
    if (length_ < 8 || (data_[0] != 'I' && data_[0] != 'M') || data_[0] != data_[1]) return 1;
    if (number(2, 2) != 42) return 1;
    const size_t directory = number(4, 4);
    if (directory > length_ - 2) return 1;
    const size_t entries = number(directory, 2);
    for (size_t i = 0; i < entries; ++i) {
      const size_t entry = directory + 2 + 12 * i;
      if (entry + 12 > length_) return 1;
      const int width = width_of(number(entry + 2, 2));
      if (number(entry, 2) != 0x0112 || width == 0) continue;
      const int64_t value = static_cast<int64_t>(number(entry + 8, width));
      return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
  }

 private:
  // Bytes of TIFF's integers: BYTE, SHORT, LONG, the same with a sign, and IFD. The standard asks
  // for a SHORT, but cameras and editors write others. 0 for other types.
  static int width_of(size_t type) {
    constexpr int kWidths[] = {0, 1, 0, 2, 4, 0, 1, 0, 2, 4, 0, 0, 0, 4};
    return type < std::size(kWidths) ? kWidths[type] : 0;
  }

  size_t number(size_t position, int bytes) const {
    size_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value = value << 8 | data_[position + (big_ ? i : bytes - 1 - i)];
    }
    return value;
  }

  const uint8_t* data_;
  size_t length_;
  bool big_;
};

int64_t orientation_of(const jpeg_decompress_struct& info) {
  static constexpr char kName[] = {'E', 'x', 'i', 'f', '\0', '\0'};
  for (jpeg_saved_marker_ptr m = info.marker_list; m != nullptr; m = m->next) {
    if (m->marker != kExif || m->data_length < sizeof(kName)) continue;
    if (std::memcmp(m->data, kName, sizeof(kName)) != 0) continue;
    return Tiff(m->data + sizeof(kName), m->data_length - sizeof(kName)).orientation();
  }
  return 1;
}

// Whether rows and columns can be left out: see the NOTE.
bool has_usual_sampling(const jpeg_decompress_struct& info) {
  const jpeg_component_info* c = info.comp_info;
  if (info.num_components == 1) return true;
  if (info.num_components != 3 || c[0].h_samp_factor > 2 || c[0].v_samp_factor > 2) return false;
  for (int i = 1; i < 3; ++i) {
    if (c[i].h_samp_factor != 1 || c[i].v_samp_factor != 1) return false;
  }
  return true;
}

// Where stored pixel (row, column) of the rectangle goes: out + start + row * down + column *
// right.
struct Steps {
  int64_t start, down, right;
};

Steps steps_of(const Request& r) {
  const int64_t c = r.channels;
  const bool swaps = r.orientation >= 5;
  // Steps along the result's columns and rows.
  const int64_t x = c, y = c * (swaps ? r.height : r.width);
  const auto is = [&](int64_t o1, int64_t o2, int64_t o3, int64_t o4) {
    const int64_t o = r.orientation;
    return o == o1 || o == o2 || o == o3 || o == o4;
  };
  const int64_t columns = swaps ? r.height : r.width, rows = swaps ? r.width : r.height;
  const bool from_right = is(2, 3, 6, 7), from_bottom = is(3, 4, 7, 8);
  const int64_t start = (from_right ? (columns - 1) * x : 0) + (from_bottom ? (rows - 1) * y : 0);
  const int64_t along_x = from_right ? -x : x, along_y = from_bottom ? -y : y;
  return swaps ? Steps{start, along_x, along_y} : Steps{start, along_y, along_x};
}

// 255 is full light, both of the inks and of the result.
inline uint8_t product(int a, int b) {
  const int t = a * b + 128;
  return static_cast<uint8_t>((t + (t >> 8)) >> 8);
}

// A row of four inks as RGB or grey. Adobe's files store the light that an ink leaves.
void convert_inks(const uint8_t* from, int64_t count, bool inverted, int64_t channels,
                  uint8_t* to) {
  const uint8_t flip = inverted ? 0 : 255;
  for (int64_t i = 0; i < count; ++i, from += 4, to += channels) {
    const int black = from[3] ^ flip;
    const uint8_t r = product(from[0] ^ flip, black), g = product(from[1] ^ flip, black),
                  b = product(from[2] ^ flip, black);
    if (channels == 3) {
      to[0] = r, to[1] = g, to[2] = b;
    } else {  // the weights of libjpeg's own conversion
      to[0] = static_cast<uint8_t>((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
    }
  }
}

void position(const uint8_t* row, int64_t width, int64_t channels, int64_t step, uint8_t* to) {
  if (step == channels) {
    std::memcpy(to, row, static_cast<size_t>(width * channels));
    return;
  }
  for (int64_t x = 0; x < width; ++x, row += channels, to += step) {
    for (int64_t c = 0; c < channels; ++c) to[c] = row[c];
  }
}

// NOTE [ Rows beside the grid of vectors ]
// Where a row begins at a multiple of a vector's 32 bytes, libjpeg-turbo stores past the caches.
// All rows are read again at once, so those of the buffer begin 16 bytes further on; else it is
// luck.
constexpr int64_t kVector = 32;

uint8_t* beside_vectors(uint8_t* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return memory + (kVector - address % kVector) % kVector + kVector / 2;
}

void check(const jpeg_decompress_struct& info, const Request& r) {
  const auto length = [&](int64_t full) { return (full + r.reduction - 1) / r.reduction; };
  const bool fits = r.top >= 0 && r.height >= 1 && r.left >= 0 && r.width >= 1 &&
                    r.top + r.height <= length(info.image_height) &&
                    r.left + r.width <= length(info.image_width);
  if (!fits) throw Damaged("the rectangle is not in the image");
}

}  // namespace

Header read_header(const uint8_t* data, size_t length) {
  Session session(data, length);
  Header header = {};
  session.run([&](jpeg_decompress_struct& info) {
    jpeg_save_markers(&info, kExif, kLongestMarker);
    jpeg_read_header(&info, TRUE);
    header = {static_cast<int64_t>(info.image_height), static_cast<int64_t>(info.image_width),
              info.num_components, orientation_of(info)};
  });
  return header;
}

void decode(const uint8_t* data, size_t length, const Request& r, uint8_t* out) {
  Session session(data, length);
  bool inks = false, inverted = false, usual = false;
  JDIMENSION first = 0, columns = 0;
  const auto prepare = [&](jpeg_decompress_struct& info) {
    jpeg_read_header(&info, TRUE);
    check(info, r);
    inks = info.num_components == 4;
    inverted = info.saw_Adobe_marker;
    usual = has_usual_sampling(info);
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(r.reduction);
    info.out_color_space = inks ? JCS_CMYK : r.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    info.do_block_smoothing = FALSE;  // it would need more neighbours
    jpeg_start_decompress(&info);
  };
  session.run(prepare);
  session.reject_lost_scans();
  session.run([&](jpeg_decompress_struct& info) {
    const JDIMENSION margin = 2;  // pixels that a chroma sample covers
    const JDIMENSION left = static_cast<JDIMENSION>(r.left);
    const JDIMENSION right = static_cast<JDIMENSION>(r.left + r.width);
    first = left > margin ? left - margin : 0;
    columns = std::min(info.output_width, right + margin) - first;
    if (usual && columns < info.output_width) {
      jpeg_crop_scanline(&info, &first, &columns);
    } else {
      first = 0;
    }
    columns = info.output_width;
  });
  const int64_t components = inks ? 4 : r.channels;
  const Steps steps = steps_of(r);
  // libjpeg writes rows to where they belong if they have the rectangle's columns and their order.
  // Others, and rows above the rectangle, go through `buffer`.
  const bool direct = !inks && columns == r.width && steps.right == r.channels;
  const int64_t stride = (columns * components + kVector - 1) / kVector * kVector;
  std::vector<uint8_t> memory(static_cast<size_t>(kRowsAtOnce * stride + 2 * kVector));
  uint8_t* const buffer = beside_vectors(memory.data());
  std::vector<uint8_t> converted(static_cast<size_t>(inks ? r.width * r.channels : 0));
  session.run([&](jpeg_decompress_struct& info) {
    if (usual && r.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(r.top));
    const int64_t bottom = r.top + r.height;
    while (static_cast<int64_t>(info.output_scanline) < bottom) {
      const int64_t y = info.output_scanline;
      const auto position_of = [&](int64_t i) {
        return out + steps.start + (y + i - r.top) * steps.down;
      };
      JSAMPROW rows[kRowsAtOnce];
      for (int64_t i = 0; i < kRowsAtOnce; ++i) {
        const bool within = y + i >= r.top && y + i < bottom;
        rows[i] = direct && within ? position_of(i) : buffer + i * stride;
      }
      const int64_t count = jpeg_read_scanlines(&info, rows, kRowsAtOnce);
      if (direct) continue;
      for (int64_t i = std::max<int64_t>(r.top - y, 0); i < std::min(count, bottom - y); ++i) {
        const uint8_t* row = rows[i] + (r.left - static_cast<int64_t>(first)) * components;
        if (inks) {
          convert_inks(row, r.width, inverted, r.channels, converted.data());
          row = converted.data();
        }
        position(row, r.width, r.channels, steps.right, position_of(i));
      }
    }
  });
}

}  // namespace visops::jpeg
