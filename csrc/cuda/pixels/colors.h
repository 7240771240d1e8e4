// CLAHE, gains in HSV, and shading of images of a batch.
//
// NOTE [ CLAHE on CUDA ]
// Up to four kernels, with the arithmetic of core/pixels/colors/grey_means.h and lab.h,
// and so the CPU's bits. Where an image has three channels, the first fills Lab's tables, in
// float64, an entry a thread. Floating images and those of three channels are brought to bytes:
// levels, or L, a, b. Then a block has a tile: a histogram in shared memory, whose integer atomics
// may come in any order, is cut, given what was cut, and summed up to the tile's table. The last
// kernel mixes the tables of the four tiles around a pixel and stores what becomes of it. It may
// write where it reads: a thread needs no other pixel than its own. Images travel by value,
// kMostClahe to a launch.
#pragma once

#include <algorithm>

#include "core/numbers/arithmetic.h"
#include "core/pixels/adjust.h"
#include "core/pixels/colors/grey_means.h"
#include "core/pixels/colors/hsv.h"
#include "core/pixels/colors/lab.h"
#include "core/pixels/shading.h"
#include "cuda/launch.h"
#include "cuda/pixels/image_batch.h"
#include "cuda/pixels/level_sums.h"
#include "cuda/send_words.h"

namespace visops {
namespace {

// Gains and shifts in HSV of images of a batch.
//
// NOTE [ HSV on CUDA ]
// A thread a pixel, with the arithmetic of core/pixels/colors/hsv.h, and so the CPU's bits.
// For bytes a block makes the tables first, an entry of each a thread. Images travel by value,
// kMostHsv to a launch.

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostHsv = 2;  // so that tests see several launches
constexpr int kHsvPixels = 512;
#else
constexpr int kMostHsv = 64;
constexpr int kHsvPixels = 8192;  // of a block
#endif
constexpr int kHsvThreads = 256;

struct HsvImage {
  const void* from;  // [3, pixels]
  void* to;
  HsvChange change;
};

struct HsvImages {
  int64_t pixels;
  int32_t count;
  HsvImage image[kMostHsv];
};

struct HsvTables {
  int32_t hue[kHsvThreads], saturation[kHsvThreads], value[kHsvThreads];
  int32_t hue_ratio[kHsvThreads], saturation_ratio[kHsvThreads];

  // One thread's entries.
  __device__ void fill(const HsvImage& image, int i) {
    const HsvChange& change = image.change;
    hue[i] = hue_entry(i, change.hue);
    saturation[i] = saturation_entry(i, change.saturation, change.saturation_shift);
    value[i] = value_entry(i, change.value, change.value_shift);
    hue_ratio[i] = visops::hue_ratio(i);
    saturation_ratio[i] = visops::saturation_ratio(i);
  }

  __device__ RgbLevels change(int32_t r, int32_t g, int32_t b) const {
    const HsvBytes own = hsv_of_bytes(r, g, b);
    const int32_t at = hue_index(by_ratio(own.sixths, hue_ratio[own.span]));
    return levels_of_hsv(hue[at], saturation[by_ratio(own.span, saturation_ratio[own.value])],
                         value[own.value]);
  }
};

// A block has kHsvPixels of an image.
template <class T>
__global__ void __launch_bounds__(kHsvThreads)
    change_hsv(const __grid_constant__ HsvImages images, const int64_t parts) {
  __shared__ HsvTables tables;  // of bytes
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t pixels = images.pixels;
  for (int64_t i = blockIdx.x; i < images.count * parts; i += gridDim.x) {
    const int64_t number = i / parts, begin = (i - number * parts) * kHsvPixels;
    const HsvImage& image = images.image[number];
    const HsvGains gains = hsv_gains(image.change);
    if constexpr (sizeof(T) == 1) {
      __syncthreads();  // the last part is done with its tables
      tables.fill(image, thread);
      __syncthreads();
    }
    const int64_t end = begin + kHsvPixels < pixels ? begin + kHsvPixels : pixels;
    for (int64_t at = begin + thread; at < end; at += kHsvThreads) {
      const T* const from = static_cast<const T*>(image.from) + at;
      T* const to = static_cast<T*>(image.to) + at;
      if constexpr (sizeof(T) == 1) {
        const RgbLevels out = tables.change(from[0], from[pixels], from[2 * pixels]);
        to[0] = static_cast<T>(out.r);
        to[pixels] = static_cast<T>(out.g);
        to[2 * pixels] = static_cast<T>(out.b);
      } else {
        const Rgb out = with_hsv(gains, from[0], from[pixels], from[2 * pixels]);
        to[0] = out.r;
        to[pixels] = out.g;
        to[2 * pixels] = out.b;
      }
    }
  }
}

// Other images stay as they are.
inline bool changes_hsv(const AdjustParams& p, const PixelOperation& operation) {
  return operation.kind == PixelKind::kHsv && p.channels == 3;
}

// The images of the batch whose operation changes_hsv().
template <class T>
void change_hsvs(const AdjustParams& p, void* stream) {
  const int64_t parts = parts_of(p.pixels(), kHsvPixels);
  HsvImages images = {};
  images.pixels = p.pixels();
  for_chosen_images(
      p, images, [&](const PixelOperation& operation) { return changes_hsv(p, operation); },
      [&](int64_t i) {
        const PixelOperation& operation = p.operations[i];
        return HsvImage{static_cast<const T*>(p.images) + i * p.size(),
                        static_cast<T*>(p.output) + i * p.size(),
                        hsv_change(operation.amount, operation.more)};
      },
      [&] {
        launch(change_hsv<T>, grid_for(images.count * parts), dim3(kHsvThreads), 0, stream, images,
               parts);
      });
}

// Illumination and shadows of images of a batch.
//
// NOTE [ Shading on CUDA ]
// A thread a pixel, with the arithmetic of core/pixels/shading.h, and so the CPU's bits: of light
// from the numbers of its column and row, of shadows by counting the edges behind it. Numbers and
// corners are laid down before. Images travel by value, kMostShaded to a launch.

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostShaded = 2;  // so that tests see several launches
constexpr int kShadedPixels = 512;
#else
constexpr int kMostShaded = 32;
constexpr int kShadedPixels = 2048;  // of a block
#endif
constexpr int kShadeThreads = 256;

struct ShadedImage {
  const void* from;  // [channels, height, width]
  void* to;
  Shade shade;
  float strength;
  const float* columns;         // of light, as in Shading
  const float* rows;            // likewise
  const float* rests;           // of shadows
  const ShadowCorner* corners;  // likewise
  int32_t shadows, count;       // corners of each

  __device__ bool is_shadowed(const ShadowCorner* own, int32_t y, int32_t x) const {
    bool inside = false;
    for (int32_t k = 0; k < count; ++k) {
      const ShadowEdge edge = shadow_edge(own, count, k);
      if (edge.crosses(y)) inside ^= edge.is_behind(x, y);
    }
    return inside;
  }
  __device__ float factor(int32_t y, int32_t x) const {
    if (shade != Shade::kShadows) return light_of(shade, strength, columns[x], rows[y]);
    float product = 1.0f;
    for (int32_t i = 0; i < shadows; ++i) {
      if (is_shadowed(corners + static_cast<int64_t>(i) * count, y, x)) product *= rests[i];
    }
    return product;
  }
};

using ShadedImages = ChosenImages<ShadedImage, kMostShaded>;

// A block has kShadedPixels of a channel.
template <class T>
__global__ void __launch_bounds__(kShadeThreads)
    shade_pixels(const __grid_constant__ ShadedImages images, const int64_t parts) {
  for_channel_pixels<T, kShadedPixels, kShadeThreads>(
      images, parts,
      [](const ShadedImage& image, const T* from, T* to, int64_t at, int32_t y, int32_t x) {
        to[at] = shaded(from[at], image.factor(y, x));
      });
}

// The images of the batch whose operation is_shading().
template <class T>
void shade_images(const AdjustParams& p, Workspace& workspace) {
  const auto is_mine = [](const PixelOperation& own) { return is_shading(own.kind); };
  std::vector<Shading> shadings;
  std::vector<float> all;
  std::vector<ShadowCorner> corners;
  for (int64_t i = 0; i < p.batch; ++i) {
    if (!is_mine(p.operations[i])) continue;
    shadings.push_back(shading_of(p.operations[i], p.height, p.width));
    const Shading& own = shadings.back();
    for (const auto* part : {&own.columns, &own.rows, &own.rests}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    corners.insert(corners.end(), own.corners.begin(), own.corners.end());
  }
  if (shadings.empty()) return;
  const float* numbers = sent(all, workspace);
  const ShadowCorner* places = sent(corners, workspace);
  const int64_t parts = parts_of(p.pixels(), kShadedPixels);
  const auto taken = [&](const std::vector<float>& part) {
    const float* const first = numbers;
    numbers += part.size();
    return first;
  };
  ShadedImages images(p);
  size_t next = 0;
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t i) {
        const Shading& own = shadings[next++];
        ShadedImage image = {};
        image.from = static_cast<const T*>(p.images) + i * p.size();
        image.to = static_cast<T*>(p.output) + i * p.size();
        image.shade = own.shade;
        image.strength = own.strength;
        image.columns = taken(own.columns);
        image.rows = taken(own.rows);
        image.rests = taken(own.rests);
        image.corners = places;
        image.shadows = static_cast<int32_t>(own.rests.size());
        image.count = static_cast<int32_t>(own.count);
        places += own.corners.size();
        return image;
      },
      [&] {
        launch(shade_pixels<T>, grid_for(images.count * images.channels * parts),
               dim3(kShadeThreads), 0, workspace.stream(), images, parts);
      });
}

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostClahe = 2;  // so that tests see several launches
constexpr int kClahePixels = 512;
#else
constexpr int kMostClahe = 32;
constexpr int kClahePixels = 2048;  // of a block
#endif
constexpr int kClaheThreads = 256;
constexpr int kLabTablePoints = kLabSteps + 1;
static_assert(kClaheThreads == kClaheLevels && kLevelCount == kClaheLevels, "an entry each");

struct ClaheImage {
  const void* from;  // [channels, pixels]
  void* to;
  uint8_t* levels;  // [channels, pixels]: those of `from`, or L, a, b; may be `from` or `to`
  uint8_t* tables;  // [planes, rows, columns, kClaheLevels]
  ClaheTiles tiles;
  int32_t limit;
};

struct ClaheImages {
  int32_t height, width, count;
  int64_t channels, planes;  // planes: channels that are equalized
  ClaheImage image[kMostClahe];

  VISOPS_DEVICE int64_t pixels() const { return static_cast<int64_t>(height) * width; }
  VISOPS_DEVICE bool in_lab() const { return channels == 3; }
};

struct LabTables {
  float* linear;   // [kClaheLevels]
  float* root;     // [kLabTablePoints]
  float* display;  // [kLabTablePoints]

  __device__ float at(const float* table, float value) const { return table[lab_step(value)]; }
};

__global__ void __launch_bounds__(kClaheThreads) fill_lab_tables(const LabTables tables) {
  const int step = static_cast<int>(gridDim.x) * kClaheThreads;
  for (int i = static_cast<int>(blockIdx.x) * kClaheThreads + static_cast<int>(threadIdx.x);
       i < kLabTablePoints; i += step) {
    if (i < kClaheLevels) tables.linear[i] = lab_linear_entry(i);
    tables.root[i] = lab_root_entry(i);
    tables.display[i] = lab_display_entry(i);
  }
}

// A block has kClahePixels of an image.
template <class T>
__global__ void __launch_bounds__(kClaheThreads)
    find_clahe_levels(const __grid_constant__ ClaheImages images, const LabTables tables,
                      const int64_t parts) {
  const int64_t pixels = images.pixels();
  for (int64_t i = blockIdx.x; i < images.count * parts; i += gridDim.x) {
    const PixelPart part = pixel_part<kClahePixels>(i, parts, pixels);
    const ClaheImage& image = images.image[part.plane];
    for (int64_t at = part.begin + threadIdx.x; at < part.end; at += kClaheThreads) {
      const T* const from = static_cast<const T*>(image.from) + at;
      uint8_t* const to = image.levels + at;
      if (images.in_lab()) {
        const float r = tables.linear[rounded_level(from[0])];
        const float g = tables.linear[rounded_level(from[pixels])];
        const float b = tables.linear[rounded_level(from[2 * pixels])];
        const float x = tables.at(tables.root, lab_x(r, g, b));
        const float y = tables.at(tables.root, lab_y(r, g, b));
        const float z = tables.at(tables.root, lab_z(r, g, b));
        store_lab(x, y, z, to, to + pixels, to + 2 * pixels);
      } else {
        for (int64_t c = 0; c < images.channels; ++c)
          to[c * pixels] = rounded_level(from[c * pixels]);
      }
    }
  }
}

// Counts the levels of a tile; a warp has rows.
__device__ inline void count_tile(const ClaheImages& images, const ClaheTiles& tiles,
                                  const uint8_t* plane, int32_t row, int32_t column,
                                  unsigned* count) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarpLanes;
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / kWarpLanes;
  for (int32_t y = warp; y < tiles.height; y += kClaheThreads / kWarpLanes) {
    const int32_t line = mirrored(row * tiles.height + y, images.height);
    const uint8_t* const from = plane + static_cast<int64_t>(line) * images.width;
    for (int32_t x = lane; x < tiles.width; x += kWarpLanes) {
      atomicAdd(count + from[mirrored(column * tiles.width + x, images.width)], 1u);
    }
  }
}

// A block has a tile; `most_tiles` are those of the image that has the most.
__global__ void __launch_bounds__(kClaheThreads)
    make_clahe_tables(const __grid_constant__ ClaheImages images, const int64_t most_tiles) {
  __shared__ unsigned count[kClaheLevels];
  __shared__ int cut;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t i = blockIdx.x; i < images.count * images.planes * most_tiles; i += gridDim.x) {
    const int64_t of_batch = i / most_tiles, number = of_batch / images.planes;
    const ClaheImage& image = images.image[number];
    const int64_t plane = of_batch - number * images.planes, tile = i - of_batch * most_tiles;
    if (tile >= image.tiles.count()) continue;
    const auto row = static_cast<int32_t>(tile) / image.tiles.columns;
    count[thread] = 0;
    if (thread == 0) cut = 0;
    __syncthreads();
    count_tile(images, image.tiles, image.levels + plane * images.pixels(), row,
               static_cast<int32_t>(tile) - row * image.tiles.columns, count);
    __syncthreads();
    if (image.limit > 0) {
      const auto own = static_cast<int32_t>(count[thread]);
      if (own > image.limit) atomicAdd(&cut, own - image.limit);
      __syncthreads();
      const ClaheGift gift = clahe_gift(cut);
      const bool more = thread % gift.step == 0 && thread / gift.step < gift.rest;
      count[thread] = static_cast<unsigned>((own < image.limit ? own : image.limit) + gift.share +
                                            (more ? 1 : 0));
    }
    sum_up(count);
    image.tables[(plane * image.tiles.count() + tile) * kClaheLevels + thread] =
        clahe_entry(static_cast<int32_t>(count[thread]), clahe_scale(image.tiles));
  }
}

// A block has kClahePixels of a plane.
template <class T>
__global__ void __launch_bounds__(kClaheThreads)
    mix_clahe_tables(const __grid_constant__ ClaheImages images, const LabTables lab,
                     const int64_t parts) {
  const int64_t pixels = images.pixels();
  for (int64_t i = blockIdx.x; i < images.count * images.planes * parts; i += gridDim.x) {
    const PixelPart part = pixel_part<kClahePixels>(i, parts, pixels);
    const int64_t number = part.plane / images.planes;
    const ClaheImage& image = images.image[number];
    const ClaheTiles& tiles = image.tiles;
    const int64_t plane = part.plane - number * images.planes;
    const uint8_t* const tables = image.tables + plane * tiles.count() * kClaheLevels;
    const float down_inverse = 1.0f / static_cast<float>(tiles.height);
    const float across_inverse = 1.0f / static_cast<float>(tiles.width);
    for (int64_t at = part.begin + threadIdx.x; at < part.end; at += kClaheThreads) {
      const int32_t y = static_cast<int32_t>(at) / images.width;
      const int32_t x = static_cast<int32_t>(at) - y * images.width;
      const ClaheBetween down = clahe_between(y, down_inverse, tiles.rows);
      const ClaheBetween across = clahe_between(x, across_inverse, tiles.columns);
      const uint8_t* const levels = image.levels + plane * pixels + at;
      const uint8_t* const own = tables + levels[0];
      const auto entry = [&](int32_t row, int32_t column) {
        return own[(row * tiles.columns + column) * kClaheLevels];
      };
      const uint8_t level =
          clahe_mixed(entry(down.first, across.first), entry(down.first, across.second),
                      entry(down.second, across.first), entry(down.second, across.second),
                      across.share, down.share);
      T* const to = static_cast<T*>(image.to) + plane * pixels + at;
      if (images.in_lab()) {
        const LinearColor color = linear_of_lab(level, levels[pixels], levels[2 * pixels]);
        to[0] = value_of_level<T>(rounded_byte(lab.at(lab.display, color.r)));
        to[pixels] = value_of_level<T>(rounded_byte(lab.at(lab.display, color.g)));
        to[2 * pixels] = value_of_level<T>(rounded_byte(lab.at(lab.display, color.b)));
      } else {
        to[0] = value_of_level<T>(level);
      }
    }
  }
}

// What a launch of images takes; scratch is for all of them.
template <class T>
void run_clahe(const ClaheImages& images, const LabTables& lab, void* stream) {
  const int64_t parts = parts_of(images.pixels(), kClahePixels);
  if (images.in_lab() || sizeof(T) != 1) {
    launch(find_clahe_levels<T>, grid_for(images.count * parts), dim3(kClaheThreads), 0, stream,
           images, lab, parts);
  }
  int64_t most_tiles = 0;
  for (int32_t i = 0; i < images.count; ++i) {
    most_tiles = std::max(most_tiles, images.image[i].tiles.count());
  }
  launch(make_clahe_tables, grid_for(images.count * images.planes * most_tiles),
         dim3(kClaheThreads), 0, stream, images, most_tiles);
  launch(mix_clahe_tables<T>, grid_for(images.count * images.planes * parts), dim3(kClaheThreads),
         0, stream, images, lab, parts);
}

// The images of the batch whose operation is a CLAHE.
template <class T>
void equalize_tiles(const AdjustParams& p, Workspace& workspace) {
  const auto is_mine = [](const PixelOperation& operation) {
    return operation.kind == PixelKind::kClahe;
  };
  ClaheImages images = {};
  images.height = static_cast<int32_t>(p.height);
  images.width = static_cast<int32_t>(p.width);
  images.channels = p.channels;
  images.planes = images.in_lab() ? 1 : p.channels;
  const auto tiles_of = [&](int64_t i) {
    const double* const more = p.operations[i].more;
    return clahe_tiles(p.height, p.width, static_cast<int64_t>(more[0]),
                       static_cast<int64_t>(more[1]));
  };
  int64_t chosen = 0, table_bytes = 0;
  for (int64_t i = 0; i < p.batch; ++i) {
    if (!is_mine(p.operations[i])) continue;
    ++chosen;
    table_bytes += images.planes * tiles_of(i).count() * kClaheLevels;
  }
  if (chosen == 0) return;
  auto* tables = allocate<uint8_t>(workspace, table_bytes);
  auto* levels = sizeof(T) == 1 ? nullptr : allocate<uint8_t>(workspace, chosen * p.size());
  LabTables lab = {};
  if (images.in_lab()) {
    lab = {allocate<float>(workspace, kClaheLevels), allocate<float>(workspace, kLabTablePoints),
           allocate<float>(workspace, kLabTablePoints)};
    launch(fill_lab_tables, grid_for(parts_of(kLabTablePoints, kClaheThreads)), dim3(kClaheThreads),
           0, workspace.stream(), lab);
  }
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t i) {
        ClaheImage image = {};
        image.from = static_cast<const T*>(p.images) + i * p.size();
        image.to = static_cast<T*>(p.output) + i * p.size();
        image.tables = tables;
        image.tiles = tiles_of(i);
        image.limit = clahe_limit(p.operations[i].amount, image.tiles);
        tables += images.planes * image.tiles.count() * kClaheLevels;
        if (sizeof(T) != 1) {
          image.levels = levels;
          levels += p.size();
        } else {
          image.levels =
              static_cast<uint8_t*>(images.in_lab() ? image.to : const_cast<void*>(image.from));
        }
        return image;
      },
      [&] { run_clahe<T>(images, lab, workspace.stream()); });
}

}  // namespace
}  // namespace visops
