// Moves and fills elements by size, whatever they mean.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/platform.h"

namespace visops {
namespace {

// out[x * stride] for x in [begin, end), elements of `size` bytes.
template <class Word>
VISOPS_ALWAYS_INLINE void fill_words(char* out, int64_t stride, int64_t begin, int64_t end,
                                     uint64_t bits) {
  const Word word = static_cast<Word>(bits);
  Word* words = reinterpret_cast<Word*>(out);
  if (stride == 1) {  // for the compiler to write vectors
    for (int64_t x = begin; x < end; ++x) words[x] = word;
    return;
  }
  for (int64_t x = begin; x < end; ++x) words[x * stride] = word;
}

void fill_elements(char* out, int64_t stride, int64_t begin, int64_t end, int64_t size,
                   uint64_t bits) {
  switch (size) {
    case 1: return fill_words<uint8_t>(out, stride, begin, end, bits);
    case 2: return fill_words<uint16_t>(out, stride, begin, end, bits);
    case 4: return fill_words<uint32_t>(out, stride, begin, end, bits);
    default: return fill_words<uint64_t>(out, stride, begin, end, bits);
  }
}

// Copies pixels of `Bytes` bytes from image + offset[i] to out + i * step.
template <int Bytes>
VISOPS_ALWAYS_INLINE void copy_pixels(const char* image, const int32_t* offset, int count,
                                      char* out, int64_t step) {
  if (step == Bytes) {
    int i = 0;
    VISOPS_UNROLL
    for (; i + 1 < count; i += 2) {
      int64_t both;  // one load for two offsets: loads are the bottleneck
      memcpy(&both, offset + i, 8);
      memcpy(out + i * Bytes, image + static_cast<int32_t>(both), Bytes);
      memcpy(out + (i + 1) * Bytes, image + (both >> 32), Bytes);
    }
    if (i < count) memcpy(out + i * Bytes, image + offset[i], Bytes);
  } else {
    for (int i = 0; i < count; ++i) memcpy(out + i * step, image + offset[i], Bytes);
  }
}

// Packed pixels. Moves more bytes than a pixel has, in one piece: the next pixel overwrites the
// rest.
template <int Bytes, int Moved>
VISOPS_ALWAYS_INLINE void copy_overlapping(const char* image, const int32_t* offset, int count,
                                           char* out) {
  VISOPS_UNROLL
  for (int i = 0; i < count - 1; ++i) memcpy(out + i * Bytes, image + offset[i], Moved);
  memcpy(out + (count - 1) * Bytes, image + offset[count - 1], Bytes);
}

// Adjacent pixels of `Bytes` bytes in the other order: out[0] is the one at `last`. (Compilers turn
// vectors around.)
template <int Bytes>
VISOPS_ALWAYS_INLINE void turn_pixels(const char* last, int count, char* out) {
  for (int64_t i = 0; i < count; ++i) {
    char pixel[Bytes];
    memcpy(pixel, last - i * Bytes, Bytes);
    memcpy(out + i * Bytes, pixel, Bytes);
  }
}

// Three bytes of each pixel to a plane each. (Compilers make shuffles of this and the next loop.)
VISOPS_ALWAYS_INLINE void split_bytes(const char* VISOPS_RESTRICT pixels, int count,
                                      char* VISOPS_RESTRICT first, char* VISOPS_RESTRICT second,
                                      char* VISOPS_RESTRICT third) {
  for (int64_t i = 0; i < count; ++i) {
    first[i] = pixels[3 * i];
    second[i] = pixels[3 * i + 1];
    third[i] = pixels[3 * i + 2];
  }
}

// The way back.
VISOPS_ALWAYS_INLINE void join_bytes(const char* VISOPS_RESTRICT first,
                                     const char* VISOPS_RESTRICT second,
                                     const char* VISOPS_RESTRICT third, int count,
                                     char* VISOPS_RESTRICT pixels) {
  for (int64_t i = 0; i < count; ++i) {
    pixels[3 * i] = first[i];
    pixels[3 * i + 1] = second[i];
    pixels[3 * i + 2] = third[i];
  }
}

}  // namespace
}  // namespace visops
