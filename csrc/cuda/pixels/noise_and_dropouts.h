// Noise and dropouts in images of a batch.
//
// NOTE [ Noise on CUDA ]
// A thread has a counter of NOTE [ Places of random numbers ] (core/pixels/random.h), and with it
// up to eight values, 16 apart; so sixteen threads have neighbours. What the values need of
// float64, expected numbers of photons, is in a table for bytes. The values' arithmetic is that of
// the CPU, and so are the bits. Images and what is done with them travel by value, kMostNoisy to a
// launch.
#pragma once

#include <algorithm>
#include <vector>

#include "core/numbers/arithmetic.h"
#include "core/pixels/adjust.h"
#include "core/pixels/dropouts.h"
#include "core/pixels/noise.h"
#include "core/pixels/random.h"
#include "cuda/launch.h"
#include "cuda/pixels/image_batch.h"
#include "cuda/send_words.h"

namespace visops {
namespace {

// Channels and rectangles of images of a batch that are filled.
//
// NOTE [ Dropouts on CUDA ]
// The kernels that adjust have copied the images. Here a block has a part of a rectangle, of one
// image. Lists of rectangles and the cells of grids are laid down before; which rectangle a cell
// has, and what fills it, follow from random numbers by NOTE [ Dropouts ]
// (core/pixels/dropouts.h), so the bits are the CPU's. Where rectangles of one image may
// overlap, a pixel belongs to the last, as if they were filled one after another. Images travel by
// value, kMostHoled to a launch.

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostHoled = 2;  // so that tests see several launches
constexpr int kHolePixels = 512;
#else
constexpr int kMostHoled = 24;
constexpr int kHolePixels = 2048;  // of a block
#endif
constexpr int kHoleThreads = 256;

struct HoledImage {
  void* to;               // [channels, height, width]
  const Hole* holes;      // [count]; null where they are those of the grid
  const GridCell* cells;  // [rows + columns]
  HoleGrid grid;
  int64_t count;
  uint64_t key;
  Filling filling;
  float value;
  bool overlap;

  __device__ Hole hole(int64_t i) const {
    return holes != nullptr ? holes[i] : grid_hole(grid, cells, key, i);
  }
  // Whether hole `i`, of holes that overlap, has a pixel. A grid's have no shifts of their own
  // then.
  __device__ bool covers(int64_t i, int32_t y, int32_t x) const {
    if (holes != nullptr) return holes[i].covers(y, x);
    const int64_t row = i / grid.columns;
    const GridCell &down = cells[row], &across = cells[grid.rows + (i - row * grid.columns)];
    return shifted_hole(grid, down, across, i, grid.down, grid.across).covers(y, x);
  }
  __device__ bool is_covered_later(int64_t i, int32_t y, int32_t x) const {
    for (++i; i < count; ++i) {
      if (covers(i, y, x)) return true;
    }
    return false;
  }
};

using HoledImages = ChosenImages<HoledImage, kMostHoled>;

// `most` are the holes of the image that has the most, `parts` those of the largest hole.
template <class T>
__global__ void __launch_bounds__(kHoleThreads)
    fill_holes(const __grid_constant__ HoledImages images, const int64_t most,
               const int64_t parts) {
  for (int64_t i = blockIdx.x; i < images.count * most * parts; i += gridDim.x) {
    const int64_t of_batch = i / parts, number = of_batch / most, own = of_batch - number * most;
    const HoledImage& image = images.image[number];
    if (own >= image.count) continue;
    const Hole hole = image.hole(own);
    const int64_t area = hole.area(), begin = (i - of_batch * parts) * kHolePixels;
    const int64_t end = begin + kHolePixels < area ? begin + kHolePixels : area;
    for (int32_t c = 0; c < hole.channels; ++c) {
      T* const plane = static_cast<T*>(image.to) + (hole.channel + c) * images.pixels();
      T color = static_cast<T>(image.value);
      if (image.filling == Filling::kColors) {
        color = random_shade<T>(key_bits(image.key, hole.number + c));
      }
      for (int64_t at = begin + threadIdx.x; at < end; at += kHoleThreads) {
        const int32_t row = static_cast<int32_t>(at) / hole.width, y = hole.top + row;
        const int32_t x = hole.left + static_cast<int32_t>(at) - row * hole.width;
        if (image.overlap && image.is_covered_later(own, y, x)) continue;
        if (image.filling == Filling::kPixels) {
          color = random_shade<T>(key_bits(image.key, hole.number + c * area + at));
        }
        plane[static_cast<int64_t>(y) * images.width + x] = color;
      }
    }
  }
}

inline int64_t largest_hole(const Dropout& dropout) {
  int64_t largest = 0;
  for (const Hole& hole : dropout.holes) largest = std::max(largest, hole.area());
  if (dropout.cells.empty()) return largest;
  const auto side = [](const GridCell& a, const GridCell& b) { return a.hole < b.hole; };
  const auto columns = dropout.cells.begin() + dropout.grid.rows;
  return static_cast<int64_t>(std::max_element(dropout.cells.begin(), columns, side)->hole) *
         std::max_element(columns, dropout.cells.end(), side)->hole;
}

// Fills what the operations of a batch that are is_dropout() fill, in images that are copied.
template <class T>
void drop_out(const AdjustParams& p, Workspace& workspace) {
  const auto is_mine = [](const PixelOperation& operation) { return is_dropout(operation.kind); };
  std::vector<Dropout> dropouts;
  std::vector<Hole> all_holes;
  std::vector<GridCell> all_cells;
  for (int64_t i = 0; i < p.batch; ++i) {
    if (!is_mine(p.operations[i])) continue;
    dropouts.push_back(dropout_of(p.operations[i], p.dtype, p.channels, p.height, p.width));
    const Dropout& own = dropouts.back();
    all_holes.insert(all_holes.end(), own.holes.begin(), own.holes.end());
    all_cells.insert(all_cells.end(), own.cells.begin(), own.cells.end());
  }
  if (all_holes.empty() && all_cells.empty()) return;
  const Hole* holes = sent(all_holes, workspace);
  const GridCell* cells = sent(all_cells, workspace);
  size_t next = 0;
  int64_t most = 0, largest = 0;
  HoledImages images(p);
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t i) {
        const Dropout& own = dropouts[next++];
        HoledImage image = {};
        image.to = static_cast<T*>(p.output) + i * p.size();
        image.holes = own.cells.empty() ? holes : nullptr;
        image.cells = cells;
        image.grid = own.grid;
        image.count = own.count();
        image.key = own.key;
        image.filling = own.filling;
        image.value = static_cast<float>(static_cast<T>(own.value));
        image.overlap = own.overlap && own.filling != Filling::kValue;
        holes += own.holes.size();
        cells += own.cells.size();
        most = std::max(most, image.count);
        largest = std::max(largest, largest_hole(own));
        return image;
      },
      [&] {
        const int64_t parts = parts_of(largest, kHolePixels);
        launch(fill_holes<T>, grid_for(images.count * most * parts), dim3(kHoleThreads), 0,
               workspace.stream(), images, most, parts);
        most = largest = 0;
      });
}

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostNoisy = 2;  // so that tests see several launches
constexpr int kPartBlocks = 24;
#else
constexpr int kMostNoisy = 40;
constexpr int kPartBlocks = 64;  // of kNoiseBlock values
#endif
constexpr int kNoiseThreads = 256;
constexpr int kNoiseBlocks = kNoiseThreads / kRandomLanes;  // that threads have at once
static_assert(kNoiseThreads == 256, "an entry of the table for bytes each");
static_assert(kNoiseBlock == kRandomBlock, "a random block each");

struct NoisyImage {
  NoiseParams noise;  // `data` is the result
  const void* from;
};

struct NoisyImages {
  int32_t count;
  NoisyImage image[kMostNoisy];
};

struct RandomWords {
  uint32_t word[4];
};

__device__ inline RandomWords random_words(uint64_t key, uint64_t counter) {
  uint32_t a = static_cast<uint32_t>(counter), b = static_cast<uint32_t>(counter >> 32);
  uint32_t c = 0, d = 0;
  RandomKey own = random_key(key);
  for (int round = 0; round < kRandomRounds; ++round) {
    random_round(own, a, b, c, d);
    own = next_key(own);
  }
  return {{a, b, c, d}};
}

// A thread's part of a block of random numbers.
template <class T>
struct NoiseLane {
  const NoiseParams& p;
  const T* from;
  T* to;
  const Photons* table;  // of bytes
  uint64_t block, lane;

  __device__ RandomWords units(int half) const {
    return random_words(p.key, (2 * block + static_cast<uint64_t>(half)) * kRandomLanes + lane);
  }
  // The value that belongs to word w, of a half of the block.
  __device__ int64_t place(int half, int w) const {
    return static_cast<int64_t>(block * kRandomBlock + lane) + half * kRandomWords +
           w * kRandomLanes;
  }

  __device__ void gaussian() const {
    const float white = sizeof(T) == 1 ? 255.0f : 1.0f;
    const float mean = static_cast<float>(p.first) * white;
    const float sigma = static_cast<float>(p.second) * white;
    const RandomWords words = random_words(p.key, block * kRandomLanes + lane);
    for (int w = 0; w < 4; ++w) {
      const NormalPair pair = normals_of(words.word[w]);
      for (int half = 0; half < 2; ++half) {
        const int64_t at = place(half, w);
        if (at >= p.count) break;
        to[at] = with_gaussian(from[at], mean, sigma, half == 0 ? pair.first : pair.second, p.clip);
      }
    }
  }

  __device__ void shot() const {
    const uint64_t other = block + (uint64_t{1} << 40);
    const RandomWords words = random_words(p.key, other * kRandomLanes + lane);
    for (int half = 0; half < 2; ++half) {
      const RandomWords own = units(half);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const int64_t at = place(half, w);
        if (at >= p.count) break;
        const NormalPair pair = normals_of(words.word[w]);
        to[at] = with_shot<T>(photons(from[at]), p.first, unit_of(own.word[w]),
                              half == 0 ? pair.first : pair.second);
      }
    }
  }

  __device__ void salt_and_pepper() const {
    const float salt = static_cast<float>(p.first);
    const float either = static_cast<float>(p.first + p.second);
    for (int half = 0; half < 2; ++half) {
      const RandomWords own = units(half);
      for (int w = 0; w < 4; ++w) {
        const int64_t first = place(half, w);
        if (first >= p.plane) break;
        for (int64_t at = first; at < p.count; at += p.plane) {
          to[at] = with_salt_and_pepper(from[at], unit_of(own.word[w]), salt, either);
        }
      }
    }
  }

 private:
  __device__ Photons photons(T value) const {
    if constexpr (sizeof(T) == 1) {
      return table[value];
    } else {
      return photons_of(static_cast<double>(value), p.first);
    }
  }
};

// Parts of all images: kPartBlocks of an image's blocks of random numbers. f(lane) for a thread's.
template <class T, class F>
__device__ void for_noise_lanes(const NoisyImages& images, int64_t parts, Photons* table,
                                const F& f) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t i = blockIdx.x; i < images.count * parts; i += gridDim.x) {
    const int64_t image = i / parts, first = (i - image * parts) * kPartBlocks;
    const NoiseParams& p = images.image[image].noise;
    if (table != nullptr) {
      __syncthreads();  // the last part is done with its table
      table[thread] = photons_of(thread / 255.0, p.first);
      __syncthreads();
    }
    const int64_t left = noise_blocks(p) - first;
    const int64_t count = left < kPartBlocks ? left : kPartBlocks;
    for (int64_t block = thread / kRandomLanes; block < count; block += kNoiseBlocks) {
      f(NoiseLane<T>{p, static_cast<const T*>(images.image[image].from), static_cast<T*>(p.data),
                     table, static_cast<uint64_t>(first + block),
                     static_cast<uint64_t>(thread % kRandomLanes)});
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kNoiseThreads, 4)
    add_noise(const __grid_constant__ NoisyImages images, const int64_t parts) {
  for_noise_lanes<T>(images, parts, nullptr, [](const NoiseLane<T>& lane) {
    if (lane.p.kind == NoiseKind::kGaussian) {
      lane.gaussian();
    } else {
      lane.salt_and_pepper();
    }
  });
}

template <class T>
__global__ void __launch_bounds__(kNoiseThreads, 2)
    add_shot_noise(const __grid_constant__ NoisyImages images, const int64_t parts) {
  if constexpr (sizeof(T) == 1) {
    __shared__ Photons table[kNoiseThreads];
    for_noise_lanes<T>(images, parts, table, [](const NoiseLane<T>& lane) { lane.shot(); });
  } else {
    for_noise_lanes<T>(images, parts, nullptr, [](const NoiseLane<T>& lane) { lane.shot(); });
  }
}

// Starts `kernel` on the images of the batch that is_mine(operation).
template <class T, class Kernel, class IsMine>
void launch_noise(Kernel kernel, const AdjustParams& p, void* stream, const IsMine& is_mine) {
  const int64_t parts = parts_of(parts_of(p.size(), kNoiseBlock), kPartBlocks);
  NoisyImages images = {};
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t i) {
        T* const to = static_cast<T*>(p.output) + i * p.size();
        const PixelImage image = {to, p.dtype, p.channels, p.height, p.width};
        return NoisyImage{noise_of(p.operations[i], image),
                          static_cast<const T*>(p.images) + i * p.size()};
      },
      [&] {
        launch(kernel, grid_for(images.count * parts), dim3(kNoiseThreads), 0, stream, images,
               parts);
      });
}

template <class T>
void add_noises(const AdjustParams& p, void* stream) {
  const auto is_shot = [](const PixelOperation& operation) {
    return operation.kind == PixelKind::kShotNoise;
  };
  launch_noise<T>(add_shot_noise<T>, p, stream, is_shot);
  launch_noise<T>(add_noise<T>, p, stream, [&](const PixelOperation& operation) {
    return is_noise(operation.kind) && !is_shot(operation);
  });
}

}  // namespace
}  // namespace visops
