// Where the pixels of a tile are written, in bytes.
//
// Interleaved output of 2 to 4 channels would be written with a stride; instead a warp gathers its
// 32 pixels in shared memory and writes whole words.
#pragma once

#include "core/images/pixel.h"
#include "core/warp/affine.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"

namespace visops {
namespace {

constexpr int kMaxInterleaved = 4;  // channels written through shared memory

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }

// An output [batch, channels, height, width].
struct OutputLayout {
  void* data;
  Strides stride;  // in elements
  int bytes;       // of an element
  int64_t channels, width;

  // Whether warps write runs of pixels as words.
  __device__ bool writes_words() const {
    return channels >= 2 && channels <= kMaxInterleaved && stride.channel == 1 &&
           stride.column == channels;
  }
  __device__ bool has_small_strides() const {
    const int64_t most = int64_t{1} << 27;  // elements, of 8 bytes at most
    return stride.row < most && stride.column < most && stride.channel < most;
  }
};

// Where a thread's pixel is written.
struct PixelOutput {
  char* at;                 // its first channel
  int64_t column, channel;  // strides
  bool exists;              // else the pixel is beyond the output
  bool is_run;              // the warp's pixels lie side by side

  // Whether they are whole words.
  __device__ bool writes_words() const {
    return is_run &&
           reinterpret_cast<uintptr_t>(at - lane_of_warp() * column) % sizeof(uint32_t) == 0;
  }
};

// For layouts whose strides fit in 32 bits: has_small_strides().
struct TileOutput {
  char* first;                   // of the tile's first pixel
  int32_t row, column, channel;  // strides
  int32_t columns;               // of the output, from the tile's first on
  bool words;                    // writes_words()

  __device__ TileOutput(const OutputLayout& to, const TileAt& at) {
    const Strides& stride = to.stride;
    const int64_t left = to.width - at.x;
    first = static_cast<char*>(to.data) +
            (at.sample * stride.batch + at.y * stride.row + at.x * stride.column) * to.bytes;
    row = static_cast<int32_t>(stride.row) * to.bytes;
    column = static_cast<int32_t>(stride.column) * to.bytes;
    channel = static_cast<int32_t>(stride.channel) * to.bytes;
    columns = static_cast<int32_t>(left < kSegment ? left : kSegment);
    words = to.writes_words();
  }

  __device__ PixelOutput pixel(int y, int x) const {
    return {first + int64_t{y} * row + int64_t{x} * column, column, channel, x < columns,
            words && x - lane_of_warp() + kWarp <= columns};
  }
};

// The same for any strides; `words` is writes_words().
__device__ inline PixelOutput pixel_output(const OutputLayout& layout, bool words, int64_t sample,
                                           int64_t y, int64_t x) {
  const Strides& stride = layout.stride;
  PixelOutput to;
  to.at = static_cast<char*>(layout.data) +
          (sample * stride.batch + y * stride.row + x * stride.column) * layout.bytes;
  to.column = stride.column * layout.bytes;
  to.channel = stride.channel * layout.bytes;
  to.exists = x < layout.width;
  to.is_run = words && x - lane_of_warp() + kWarp <= layout.width;
  return to;
}

// The warp's pixels, which lie in `staged` as in the output. All lanes must call it.
__device__ inline void store_words(const PixelOutput& to, const void* staged) {
  __syncwarp();  // all lanes have written
  const int lane = lane_of_warp(), column = static_cast<int>(to.column);
  const int words = column * kWarp / int{sizeof(uint32_t)};
  auto* const run = reinterpret_cast<uint32_t*>(to.at - lane * column);
  for (int i = lane; i < words; i += kWarp) run[i] = static_cast<const uint32_t*>(staged)[i];
  __syncwarp();  // all lanes have read, before the next row is staged
}

}  // namespace
}  // namespace visops
