// Rows of pixels that only move, under an affine map and constant padding: most masks.
//
// NOTE [ Copied rows ]
// Coordinates are monotonic along a segment, so the lanes whose taps lie in the window are one run.
// Most segments lie in the window as a whole, which their two ends tell; the others are searched
// from where float64 puts the run's ends. So no lane is clamped or tested, and the products of step
// and lane, which are the same in every segment, are computed once. Upright maps have the same runs
// and offsets in all rows, so that only the copies are left; quarter turns need no offsets.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "core/images/pixel.h"
#include "core/platform.h"
#include "core/warp/affine.h"
#include "cpu/copies.h"
#include "cpu/prefetch.h"
#include "cpu/warp/affine_rows.h"

namespace visops {
namespace {

// Pixels that move from an image to the output as they are.

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

// How a strip of the output is walked: a few rows at a time, segment by segment.

// block(x0, y0, count, rows): up to `Rows` rows finish a segment before the next one begins. Under
// rotation a row crosses many rows of the image, and cache lines that one row fetches serve the
// others.
template <int Rows, class Block>
VISOPS_ALWAYS_INLINE void for_each_block(ReadAhead& ahead, Span columns, Span rows,
                                         const Block& block) {
  for (int64_t y0 = rows.begin; y0 < rows.end; y0 += Rows) {
    ahead.at(y0);
    const int64_t below = rows.end - y0;
    for (int64_t x0 = columns.begin; x0 < columns.end; x0 += kSegment) {
      const int64_t left = columns.end - x0;
      block(x0, y0, static_cast<int>(left < kSegment ? left : kSegment),
            static_cast<int>(below < Rows ? below : Rows));
    }
  }
}

// Pixels that move by a quarter turn: rows of the image become columns of the output.
//
// NOTE [ Copied tiles ]
// A row of the output takes one pixel from each of many image rows. So tiles are copied, as when a
// matrix is transposed: the cache lines that a tile reads and writes stay in the first-level cache
// until all of their pixels have moved. Bytes are transposed in words, eight by eight; those of
// interleaved channels as well, each of which is a row of its own where the output has planes.

constexpr int64_t kTile = 32;  // rows and columns
constexpr int64_t kTileWords = kTile / 8;

// Where the first element lies on both sides, and bytes from it to the next ones of the output.
struct TurnedPixels {
  const char* from;
  int64_t from_column, from_row, from_channel;
  char* to;
  int64_t to_column, to_row, to_channel;
  int64_t columns, rows, channels;

  int64_t width_from(int64_t x) const { return columns - x < kTile ? columns - x : kTile; }
};

template <int Bytes>
void copy_tile(const TurnedPixels& p, int64_t x0, int64_t y0, int64_t width, int64_t height) {
  const int64_t from_column = p.from_column, to_column = p.to_column;
  for (int64_t c = 0; c < p.channels; ++c) {
    for (int64_t y = y0; y < y0 + height; ++y) {
      const char* from = p.from + x0 * from_column + y * p.from_row + c * p.from_channel;
      char* to = p.to + x0 * to_column + y * p.to_row + c * p.to_channel;
      VISOPS_UNROLL
      for (int64_t x = 0; x < width; ++x) memcpy(to + x * to_column, from + x * from_column, Bytes);
    }
  }
}

template <int Bytes>
void copy_tiles(const TurnedPixels& p) {
  for (int64_t y = 0; y < p.rows; y += kTile) {
    const int64_t height = p.rows - y < kTile ? p.rows - y : kTile;
    for (int64_t x = 0; x < p.columns; x += kTile) {
      copy_tile<Bytes>(p, x, y, p.width_from(x), height);
    }
  }
}

// Swaps the higher bits of `low` with the lower ones of `high`.
template <int Bits>
VISOPS_ALWAYS_INLINE void swap_bits(uint64_t (&low)[kTileWords], uint64_t (&high)[kTileWords],
                                    uint64_t mask) {
  for (int64_t i = 0; i < kTileWords; ++i) {
    const uint64_t other = ((low[i] >> Bits) ^ high[i]) & mask;
    high[i] ^= other;
    low[i] ^= other << Bits;
  }
}

// A tile whose rows are bytes next to each other in the image; `to` are its rows.
void copy_byte_tile(const char* from, int64_t from_column, char* const* to, int64_t x0) {
  for (int64_t x = x0; x < x0 + kTile; x += 8) {
    uint64_t words[8][kTileWords];
    for (int64_t i = 0; i < 8; ++i) memcpy(words[i], from + (x + i) * from_column, kTile);
    for (int i : {0, 1, 2, 3}) swap_bits<32>(words[i], words[i + 4], 0x00000000ffffffffu);
    for (int i : {0, 1, 4, 5}) swap_bits<16>(words[i], words[i + 2], 0x0000ffff0000ffffu);
    for (int i : {0, 2, 4, 6}) swap_bits<8>(words[i], words[i + 1], 0x00ff00ff00ff00ffu);
    for (int64_t y = 0; y < kTile; ++y) memcpy(to[y] + x, &words[y % 8][y / 8], 8);
  }
}

// Every byte of a pixel is a row of the output.
void copy_byte_rows(TurnedPixels p) {
  if (p.from_row < 0) {  // from the last row upwards
    p.from += (p.rows - 1) * p.from_row;
    p.to += (p.rows - 1) * p.to_row;
    p.to_row = -p.to_row;
  }
  const int64_t bytes = p.rows * p.channels;
  for (int64_t y = 0; y < bytes; y += kTile) {
    const int64_t height = bytes - y < kTile ? bytes - y : kTile;
    char* to[kTile];
    for (int64_t i = 0; i < height; ++i) {
      to[i] = p.to + (y + i) / p.channels * p.to_row + (y + i) % p.channels * p.to_channel;
    }
    for (int64_t x = 0; x < p.columns; x += kTile) {
      const int64_t width = p.width_from(x);
      if (height == kTile && width == kTile) {
        copy_byte_tile(p.from + y, p.from_column, to, x);
        continue;
      }
      for (int64_t i = 0; i < height; ++i) {
        const char* from = p.from + y + i;
        for (int64_t k = x; k < x + width; ++k) to[i][k] = from[k * p.from_column];
      }
    }
  }
}

// False for another number of bytes.
inline bool copy_tiles(int64_t bytes, const TurnedPixels& p) {
  switch (bytes) {
    case 1: copy_tiles<1>(p); return true;
    case 2: copy_tiles<2>(p); return true;
    case 3: copy_tiles<3>(p); return true;
    case 4: copy_tiles<4>(p); return true;
    case 6: copy_tiles<6>(p); return true;
    case 8: copy_tiles<8>(p); return true;
    case 12: copy_tiles<12>(p); return true;
    case 16: copy_tiles<16>(p); return true;
    default: return false;
  }
}

inline void copy_turned_pixels(const TurnedPixels& p, int64_t element) {
  const int64_t row = p.from_row < 0 ? -p.from_row : p.from_row;
  if (element == 1 && p.to_column == 1 && p.from_channel == 1 && row == p.channels) {
    return copy_byte_rows(p);
  }
  TurnedPixels pixels = p;
  pixels.channels = 1;
  if (element == 1 && p.to_column == 1 && row == 1) {
    for (int64_t c = 0; c < p.channels; ++c) {
      copy_byte_rows(pixels);
      pixels.from += p.from_channel;
      pixels.to += p.to_channel;
    }
    return;
  }
  const bool whole = p.from_channel == element && p.to_channel == element;
  if (whole && copy_tiles(p.channels * element, pixels)) return;
  copy_tiles(element, p);
}

constexpr int kCopiedRows = 8;  // in a block

// One sample; strides in bytes.
struct CopiedSample {
  PixelLayout layout;
  const char* image;  // its first element
  char* output;       // of the sample
  int64_t row_bytes, out_row_bytes;
  const double* m;            // output to image
  SourceRange columns, rows;  // of the image: the window
  DType dtype;
  const double* fill;  // per channel; fill[0] for all of them where fill_count is 1
  int64_t fill_count;
};

// Whether copy_sample() can make it: floats and 32-bit offsets hold every lane of a segment that
// reaches the window.
inline bool fits_copied_rows(const CopiedSample& s) {
  const int64_t most = 2097152;  // 2^21
  const double reach = static_cast<double>(most);
  return fits_taps(s.m, s.row_bytes, s.layout.column_bytes) && fabs(s.m[0]) * kSegment < reach &&
         fabs(s.m[3]) * kSegment < reach && s.columns.last < most && s.rows.last < most;
}

// One axis of the source, lane by lane of a segment.
struct CopiedAxis {
  alignas(64) float distance[kPaddedSegment];  // from the segment's centre
  double step;
  SourceRange window;

  CopiedAxis(double per_column, SourceRange range) : step(per_column), window(range) {
    for (int i = 0; i < kPaddedSegment; ++i) {
      distance[i] = static_cast<float>(step) * from_centre<float>(i);
    }
  }

  // From the integer part of the centre, whose fraction is given.
  VISOPS_ALWAYS_INLINE int32_t tap(float fraction, int64_t lane) const {
    return static_cast<int32_t>(floor_of((distance[lane] + fraction) + 0.5f));
  }
  VISOPS_ALWAYS_INLINE bool holds(int64_t tap) const {
    return tap >= window.first && tap <= window.last;
  }

  // Those of `count` lanes whose taps lie in the window; the first one's source is about `begin`.
  VISOPS_ALWAYS_INLINE Span lanes_inside(int64_t integer, float fraction, double begin,
                                         int64_t count) const {
    const auto is_inside = [&](int64_t lane) { return holds(integer + tap(fraction, lane)); };
    if (is_inside(0) && is_inside(count - 1)) return {0, count};
    Span lanes = columns_maybe_within(step, begin, static_cast<double>(window.first) - 0.5,
                                      static_cast<double>(window.last) + 0.5, count);
    while (lanes.begin < lanes.end && !is_inside(lanes.begin)) ++lanes.begin;
    while (lanes.begin < lanes.end && !is_inside(lanes.end - 1)) --lanes.end;
    return lanes;
  }
};

// Where a segment lies in the output.
struct CopiedSegment {
  int64_t x0, y;
  int count;  // pixels
};

// lane(i) for the whole vectors that hold `lanes`.
template <class Lane>
VISOPS_ALWAYS_INLINE void for_whole_vectors(Span lanes, const Lane& lane) {
  if (lanes.begin == lanes.end) return;
  const int begin = static_cast<int>(lanes.begin) & -kMaxWidth;
  const int end = (static_cast<int>(lanes.end) + kMaxWidth - 1) & -kMaxWidth;
  for (int i = begin; i < end; ++i) lane(i);
}

// Fills the columns of a row from `out` on that are not `inside`.
inline void fill_beside(const CopiedSample& s, Span inside, int64_t count, char* out) {
  const bool filled = inside.end - inside.begin < count;
  const int64_t element = s.layout.element, step = s.layout.out_column_bytes / element;
  for (int64_t c = 0; filled && c < s.layout.channels; ++c) {
    const uint64_t fill = fill_bits(s.dtype, s.fill[s.fill_count == 1 ? 0 : c]);
    char* to = out + c * s.layout.out_channel_bytes;
    fill_elements(to, step, 0, inside.begin, element, fill);
    fill_elements(to, step, inside.end, count, element, fill);
  }
}

// Writes a segment whose lanes `inside` have their taps at `offset` from a pixel; the others are
// fill.
inline void copy_segment(const CopiedSample& s, const CopiedSegment& at, Span inside, int64_t row,
                         int64_t column, const int32_t* offset) {
  const int64_t step = s.layout.out_column_bytes;
  char* out = s.output + at.y * s.out_row_bytes + at.x0 * step;
  if (inside.begin < inside.end) {
    const char* from = s.image + row * s.row_bytes + column * s.layout.column_bytes;
    copy_run(s.layout, from, offset + inside.begin, static_cast<int>(inside.end - inside.begin),
             out + inside.begin * step);
  }
  fill_beside(s, inside, at.count, out);
}

inline void copy_strip(const CopiedSample& s, Span rows, Span strip) {
  const PixelLayout& layout = s.layout;
  const double* m = s.m;
  ReadAhead ahead(
      {s.image, s.rows.last + 1, s.columns.last + 1, layout.interleaved() ? 1 : layout.channels,
       layout.channel_bytes, s.row_bytes, layout.column_bytes},
      m, 1, strip, rows);
  const CopiedAxis axis_x(m[0], s.columns), axis_y(m[3], s.rows);
  const auto row_bytes = static_cast<int32_t>(s.row_bytes);
  const auto column_bytes = static_cast<int32_t>(layout.column_bytes);
  SegmentOrigin<float> centre[kCopiedRows];
  Span inside[kCopiedRows];
  alignas(64) int32_t offset[kCopiedRows][kPaddedSegment];
  const auto copy_block = [&](int64_t x0, int64_t y0, int count, int block_rows) {
    for (int row = 0; row < block_rows; ++row) centre[row] = segment_origin<float>(m, x0, y0 + row);
    const double x = static_cast<double>(x0);
    for (int row = 0; row < block_rows; ++row) {
      const SegmentOrigin<float> at = centre[row];
      const double y = static_cast<double>(y0 + row);
      inside[row] =
          intersect(axis_x.lanes_inside(at.x, at.fx, m[0] * x + (m[1] * y + m[2]), count),
                    axis_y.lanes_inside(at.y, at.fy, m[3] * x + (m[4] * y + m[5]), count));
      for_whole_vectors(inside[row], [&](int i) {
        offset[row][i] = axis_y.tap(at.fy, i) * row_bytes + axis_x.tap(at.fx, i) * column_bytes;
      });
    }
    for (int row = 0; row < block_rows; ++row) {
      copy_segment(s, {x0, y0 + row, count}, inside[row], centre[row].y, centre[row].x,
                   offset[row]);
    }
  };
  for_each_block<kCopiedRows>(ahead, strip, rows, copy_block);
}

// A segment under an upright map, in any row.
struct UprightSegment {
  int64_t x0, centre;  // in the output, in the image
  int count;           // pixels
  Span inside;
  alignas(64) int32_t offset[kPaddedSegment];
};

constexpr int kUprightSegments = 16;  // of a strip

// Goes row by row: both sides are read and written in the order of memory.
inline void copy_upright_strip(const CopiedSample& s, Span rows, Span strip) {
  const CopiedAxis axis_x(s.m[0], s.columns), axis_y(0.0, s.rows);
  const auto column_bytes = static_cast<int32_t>(s.layout.column_bytes);
  UprightSegment segments[kUprightSegments];
  int count = 0;
  for (int64_t x0 = strip.begin; x0 < strip.end; x0 += kSegment) {
    UprightSegment& segment = segments[count++];
    const auto centre = segment_origin<float>(s.m, x0, rows.begin);
    const int64_t left = strip.end - x0;
    segment.x0 = x0;
    segment.centre = centre.x;
    segment.count = static_cast<int>(left < kSegment ? left : kSegment);
    segment.inside = axis_x.lanes_inside(centre.x, centre.fx,
                                         s.m[0] * static_cast<double>(x0) + s.m[2], segment.count);
    for_whole_vectors(segment.inside,
                      [&](int i) { segment.offset[i] = axis_x.tap(centre.fx, i) * column_bytes; });
  }
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const auto centre = segment_origin<float>(s.m, strip.begin, y);
    const int64_t row = centre.y + axis_y.tap(centre.fy, 0);
    const bool holds = axis_y.holds(row);
    for (int i = 0; i < count; ++i) {
      const UprightSegment& segment = segments[i];
      copy_segment(s, {segment.x0, y, segment.count}, holds ? segment.inside : Span{0, 0}, row,
                   segment.centre, segment.offset);
    }
  }
}

// Those of `count` columns (rows) whose sources, from `first` on by `step`, lie in the window.
inline Span turned_inside(int64_t first, int64_t step, SourceRange window, int64_t count) {
  const int64_t begin = step > 0 ? window.first - first : first - window.last;
  const int64_t end = step > 0 ? window.last - first : first - window.first;
  const Span inside = intersect({0, count}, {begin, end + 1});
  return inside.begin < inside.end ? inside : Span{0, 0};
}

// Whether a * moved + b * still + c, for moved < moves and still < stays, is always within a
// quarter of an integer that `moved` changes by one: then so is a float32 of it within half of
// that. Images are far smaller than 2^31, so no pixel is lost to the limit of integers.
inline bool moves_by_one(double a, double b, double c, int64_t moves, int64_t stays) {
  if (!(fabs(c) < 2147483648.0)) return false;
  const double error = fabs(fabs(a) - 1.0) * static_cast<double>(moves) +
                       fabs(b) * static_cast<double>(stays) + fabs(c - std::floor(c + 0.5));
  return error <= 0.25;
}

// Whether copy_turned() can make a sample of `height` x `width`.
inline bool is_turned(const double* m, int64_t height, int64_t width) {
  return moves_by_one(m[1], m[0], m[2], height, width) &&
         moves_by_one(m[3], m[4], m[5], width, height);
}

inline void copy_turned(const CopiedSample& s, Span rows, int64_t columns) {
  const PixelLayout& layout = s.layout;
  const int64_t step_x = s.m[1] > 0.0 ? 1 : -1, step_y = s.m[3] > 0.0 ? 1 : -1;
  const int64_t x = static_cast<int64_t>(std::floor(s.m[2] + 0.5));
  const int64_t y = static_cast<int64_t>(std::floor(s.m[5] + 0.5));
  const Span inside = turned_inside(y, step_y, s.rows, columns);
  const Span across = intersect(rows, turned_inside(x, step_x, s.columns, rows.end));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const bool holds = row >= across.begin && row < across.end;
    fill_beside(s, holds ? inside : Span{0, 0}, columns, s.output + row * s.out_row_bytes);
  }
  const int64_t width = inside.end - inside.begin, height = across.end - across.begin;
  if (width <= 0 || height <= 0) return;
  const int64_t top = y + step_y * inside.begin, left = x + step_x * across.begin;
  copy_turned_pixels(
      {s.image + top * s.row_bytes + left * layout.column_bytes, step_y * s.row_bytes,
       step_x * layout.column_bytes, layout.channel_bytes,
       s.output + across.begin * s.out_row_bytes + inside.begin * layout.out_column_bytes,
       layout.out_column_bytes, s.out_row_bytes, layout.out_channel_bytes, width, height,
       layout.channels},
      layout.element);
}

// `height`: rows of the whole sample.
inline void copy_sample(const CopiedSample& s, Span rows, int64_t height, int64_t columns) {
  if (is_turned(s.m, height, columns)) return copy_turned(s, rows, columns);
  const bool upright = s.m[1] == 0.0 && s.m[3] == 0.0;
  const int64_t width = upright ? kUprightSegments * kSegment : kStripColumns;
  for (int64_t x = 0; x < columns; x += width) {
    const Span strip = intersect({0, columns}, {x, x + width});
    if (upright) {
      copy_upright_strip(s, rows, strip);
    } else {
      copy_strip(s, rows, strip);
    }
  }
}

}  // namespace
}  // namespace visops
