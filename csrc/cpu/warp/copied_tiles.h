// Pixels that move by a quarter turn: rows of the image become columns of the output.
//
// NOTE [ Copied tiles ]
// A row of the output takes one pixel from each of many image rows. So tiles are copied, as when a
// matrix is transposed: the cache lines that a tile reads and writes stay in the first-level cache
// until all of their pixels have moved. Bytes are transposed in words, eight by eight; those of
// interleaved channels as well, each of which is a row of its own where the output has planes.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "core/platform.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
