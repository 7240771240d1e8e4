// Pixels that move from an image to the output as they are.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/warp/affine.h"
#include "cpu/copies.h"

namespace visops {
namespace {

// How pixels lie on both sides, in bytes.
struct PixelLayout {
  int64_t channels, element;  // an element's size
  int64_t channel_bytes, column_bytes;
  int64_t out_channel_bytes, out_column_bytes;
  int run;          // an output row is a run of an image row: 1, backwards: -1; neither: 0
  const char* end;  // of the image's memory

  // Whether one move takes all channels.
  bool interleaved() const {
    return channels == 1 || (channel_bytes == element && out_channel_bytes == element);
  }
};

// PixelLayout::run of a map from output to image.
inline int run_of(bool integral, const double* m) {
  return integral && fabs(m[0]) == 1.0 && m[3] == 0.0 ? static_cast<int>(m[0]) : 0;
}

template <int Bytes, int Moved>
void copy_packed(const PixelLayout& layout, const char* from, const int32_t* offset, int count,
                 char* out) {
  int32_t highest = offset[0];
  for (int i = 1; i < count; ++i) highest = offset[i] > highest ? offset[i] : highest;
  if (layout.out_column_bytes == Bytes && from + highest + Moved <= layout.end) {
    copy_overlapping<Bytes, Moved>(from, offset, count, out);
  } else {
    copy_pixels<Bytes>(from, offset, count, out, layout.out_column_bytes);
  }
}

// False for pixels of another size.
inline bool turn_run(int64_t pixel, const char* last, int count, char* out) {
  switch (pixel) {
    case 1: turn_pixels<1>(last, count, out); return true;
    case 2: turn_pixels<2>(last, count, out); return true;
    case 4: turn_pixels<4>(last, count, out); return true;
    case 8: turn_pixels<8>(last, count, out); return true;
    default: return false;
  }
}

// A run of RGB bytes from pixels to planes or back, up to a segment. False: it is something else.
inline bool move_channels(const PixelLayout& layout, const char* from, const int32_t* offset,
                          int count, char* out) {
  const int64_t last = layout.run * (count - 1) * layout.column_bytes;
  if (layout.run == 0 || layout.channels != 3 || layout.element != 1 ||
      offset[count - 1] - offset[0] != last) {
    return false;
  }
  const int64_t plane = layout.channel_bytes, out_plane = layout.out_channel_bytes;
  const bool splits = layout.column_bytes == 3 && plane == 1 && layout.out_column_bytes == 1;
  const bool joins = layout.column_bytes == 1 && layout.out_column_bytes == 3 && out_plane == 1;
  if (!splits && !joins) return false;
  from += offset[0];
  if (layout.run > 0) {
    if (splits) split_bytes(from, count, out, out + out_plane, out + 2 * out_plane);
    if (joins) join_bytes(from, from + plane, from + 2 * plane, count, out);
    return true;
  }
  char turned[3][kSegment];
  if (splits) {
    split_bytes(from + last, count, turned[0], turned[1], turned[2]);
    for (int c = 0; c < 3; ++c) turn_pixels<1>(turned[c] + count - 1, count, out + c * out_plane);
  } else {
    for (int c = 0; c < 3; ++c) turn_pixels<1>(from + c * plane, count, turned[c]);
    join_bytes(turned[0], turned[1], turned[2], count, out);
  }
  return true;
}

// Pixels at from + offset[i] to adjacent columns.
inline void copy_run(const PixelLayout& layout, const char* from, const int32_t* offset, int count,
                     char* out) {
  const bool interleaved = layout.interleaved();
  const bool changes = layout.column_bytes != layout.out_column_bytes;
  if (changes && move_channels(layout, from, offset, count, out)) return;
  const int64_t pixel = interleaved ? layout.channels * layout.element : layout.element;
  const int64_t step = layout.out_column_bytes;
  // Offsets that were clamped repeat a pixel.
  const bool is_run = layout.run != 0 && layout.column_bytes == pixel && step == pixel &&
                      offset[count - 1] - offset[0] == layout.run * (count - 1) * pixel;
  for (int64_t c = 0; c < (interleaved ? 1 : layout.channels); ++c) {
    const char* plane = from + c * layout.channel_bytes;
    char* to = out + c * layout.out_channel_bytes;
    if (is_run && layout.run > 0) {
      memcpy(to, plane + offset[0], static_cast<size_t>(count * pixel));
      continue;
    }
    if (is_run && turn_run(pixel, plane + offset[0], count, to)) continue;
    switch (pixel) {
      case 1: copy_pixels<1>(plane, offset, count, to, step); break;
      case 2: copy_pixels<2>(plane, offset, count, to, step); break;
      case 3: copy_packed<3, 4>(layout, plane, offset, count, to); break;
      case 4: copy_pixels<4>(plane, offset, count, to, step); break;
      case 6: copy_packed<6, 8>(layout, plane, offset, count, to); break;
      case 8: copy_pixels<8>(plane, offset, count, to, step); break;
      case 12: copy_packed<12, 16>(layout, plane, offset, count, to); break;
      case 16: copy_pixels<16>(plane, offset, count, to, step); break;
      default:
        for (int i = 0; i < count; ++i) {
          memcpy(to + i * step, plane + offset[i], static_cast<size_t>(pixel));
        }
    }
  }
}

}  // namespace
}  // namespace visops
