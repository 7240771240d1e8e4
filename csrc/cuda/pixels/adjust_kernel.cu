// NOTE [ Pixel operations on CUDA ]
// What computes much for a pixel or reads others has kernels of its own: colors.h, lossy.h,
// neighbourhoods.h. For all other images of a batch there are two kernels, whatever their
// operations are. Dropouts (noise_and_dropouts.h) fill parts of images that these two have copied.
//
// The first prepares: a block for each channel of an image. Where an operation needs the channel's
// values (the extremes for an autocontrast, the histogram for an equalization, the grey mean for a
// contrast), it reads them all. It leaves the channel's two numbers, and for bytes, or the levels
// of an equalization, the table of 256 results.
//
// The second changes values: a block for a part of a channel. What depends on a value alone is
// looked up, or computed from the two numbers. A saturation or a bleaching is done by the blocks of
// the first channel, for three of them.
//
// Sums are deterministic: those of grey values as on the CPU, a warp a row by NOTE [ Lane sums ],
// and rows in order. Histograms count integers, so the order of their atomics does not matter.
//
// Operations travel by value, kMostAdjusted to a launch.
#include <algorithm>

#include "core/numbers/arithmetic.h"
#include "core/numbers/lane_sum.h"
#include "core/pixels/adjust.h"
#include "core/pixels/operations.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"
#include "cuda/pixels/colors.h"
#include "cuda/pixels/each_value.h"
#include "cuda/pixels/level_sums.h"
#include "cuda/pixels/lossy.h"
#include "cuda/pixels/neighbourhoods.h"
#include "cuda/pixels/noise_and_dropouts.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostAdjusted = 3;  // so that tests see several launches
constexpr int kPartPixels = 512;
#else
constexpr int kMostAdjusted = 128;
constexpr int kPartPixels = 8192;
#endif
constexpr int kPrepareThreads = 512;
constexpr int kAdjustThreads = 256;
static_assert(kPrepareThreads >= kLevelCount && kAdjustThreads >= kLevelCount, "an entry each");

// The kind of images that other kernels change.
constexpr PixelKind kElsewhere = PixelKind::kCount;

// An operation with its amount as kernels compute with it.
struct Adjustment {
  PixelKind kind;
  float amount, rest;  // of a bleaching, `rest` is the greatest lightness
  double deviation;    // of tone curves
  uint64_t key;        // likewise
  bool per_channel;    // likewise
};

struct Adjustments {
  int64_t first;  // image
  int32_t count;
  Adjustment of_image[kMostAdjusted];
};

template <class T>
Adjustment adjustment_of(const PixelOperation& operation) {
  constexpr double kWhite = sizeof(T) == 1 ? 255.0 : 1.0;
  const double* const more = operation.more;
  Adjustment a = {};
  a.kind = operation.kind;
  a.amount = static_cast<float>(operation.amount);
  a.rest = static_cast<float>(1.0 - operation.amount);
  if (a.kind == PixelKind::kBleach) a.rest = static_cast<float>(more[0] * kWhite);
  if (a.kind == PixelKind::kToneCurve) {
    a.deviation = operation.amount;
    a.per_channel = more[0] != 0.0;
    a.key = key_of(more[1]);
  }
  if (a.kind == PixelKind::kSolarize) {
    a.kind = PixelKind::kSolarizeAt;
    a.amount = static_cast<float>(operation.amount * kWhite);
  }
  if (is_dropout(a.kind)) a.kind = PixelKind::kIdentity;
  if (a.kind == PixelKind::kPosterize) {
    a.amount = static_cast<float>(std::clamp(static_cast<int>(operation.amount), 0, 8));
  }
  return a;
}

// What the first kernel leaves for a channel: autocontrast's low end and scale, a contrast's share
// of grey, or the handles of a tone curve. Unless it `changes`, it stays as it is.
struct ChannelNumbers {
  float low, scale;
  bool changes;
};

struct AdjustScratch {
  ChannelNumbers* numbers;  // [batch, channels]
  uint8_t* table;           // [batch, channels, kLevelCount]
};

__device__ inline bool has_table(PixelKind kind, bool is_bytes) {
  switch (kind) {
    case PixelKind::kIdentity:
    case PixelKind::kSaturation:
    case PixelKind::kBleach:
    case PixelKind::kSharpness: return false;
    case PixelKind::kEqualize: return true;
    default: return is_bytes;
  }
}

// What an operation makes of one value, where it needs no others beside the channel's numbers.
template <class T>
__device__ T adjusted(const Adjustment& a, const ChannelNumbers& numbers, T value) {
  const auto number = static_cast<float>(value);
  switch (a.kind) {
    case PixelKind::kBrightness: return stored<T>(number * a.amount);
    case PixelKind::kContrast: return stored<T>(number * a.amount + numbers.low);
    case PixelKind::kPosterize: return posterized(value, static_cast<int>(a.amount));
    case PixelKind::kSolarizeAt: return solarized(value, a.amount);
    case PixelKind::kAutocontrast:
      return numbers.changes ? stretched(value, numbers.low, numbers.scale) : value;
    case PixelKind::kSolarizeAdd: return solarize_added(value, a.amount);
    case PixelKind::kInvert: return inverted(value);
    case PixelKind::kGamma: return gamma_of(value, a.amount);
    case PixelKind::kToneCurve: return toned(value, {numbers.low, numbers.scale});
    default: return value;
  }
}

// A value's level for an equalization.
__device__ inline int level_of(uint8_t value) { return value; }
__device__ inline int level_of(float value) { return cut_off(value * kLevels); }

template <class T>
struct PrepareShared {
  T least[kPrepareThreads / kWarpLanes], most[kPrepareThreads / kWarpLanes];
  unsigned count[kLevelCount];
  double row_sum[kPrepareThreads];
  int last;  // the greatest level that occurs
  ChannelNumbers numbers;
};

// The extremes of a channel; the first thread knows them.
template <class T>
__device__ void find_extremes(const T* data, int64_t pixels, PrepareShared<T>& shared) {
  T least = highest<T>(), most = lowest<T>();
  each_value<kPrepareThreads>(data, pixels, [&](T value) {
    least = value < least ? value : least;
    most = value > most ? value : most;
  });
  for (int half = kWarpLanes / 2; half > 0; half /= 2) {
    const T low = static_cast<T>(__shfl_down_sync(kAllLanes, static_cast<float>(least), half));
    const T high = static_cast<T>(__shfl_down_sync(kAllLanes, static_cast<float>(most), half));
    least = low < least ? low : least;
    most = high > most ? high : most;
  }
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  if (threadIdx.x % kWarpLanes == 0) {
    shared.least[warp] = least;
    shared.most[warp] = most;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 0; i < kPrepareThreads / kWarpLanes; ++i) {
    least = shared.least[i] < least ? shared.least[i] : least;
    most = shared.most[i] > most ? shared.most[i] : most;
  }
  constexpr float kWhite = sizeof(T) == 1 ? 255.0f : 1.0f;
  const float low = static_cast<float>(least), high = static_cast<float>(most);
  shared.numbers = {low, (high - low) * (1.0f / kWhite), low < high};
}

constexpr int kGreyAhead = 4;  // pixels that a lane loads before it adds them

// A lane's share of the sum of a row's grey values.
template <class T>
__device__ double grey_of_lane(const AdjustParams& p, const T* row, int lane) {
  const int64_t pixels = p.pixels();
  double sum = 0.0;
  for (int64_t first = lane; first < p.width; first += kGreyAhead * kWarpLanes) {
    T value[kGreyAhead][3] = {};
#pragma unroll
    for (int i = 0; i < kGreyAhead; ++i) {
      const int64_t x = first + i * kWarpLanes;
      if (x >= p.width) continue;
      value[i][0] = row[x];
      if (p.channels < 3) continue;
      value[i][1] = row[x + pixels];
      value[i][2] = row[x + 2 * pixels];
    }
#pragma unroll
    for (int i = 0; i < kGreyAhead; ++i) {
      if (first + i * kWarpLanes >= p.width) continue;
      const auto red = static_cast<float>(value[i][0]);
      sum +=
          static_cast<double>(p.channels < 3 ? red
                                             : grey_level<T>(red, static_cast<float>(value[i][1]),
                                                             static_cast<float>(value[i][2])));
    }
  }
  return sum;
}

// The first thread's sum of an image's grey values; as many rows at a time as there is room for.
template <class T>
__device__ double sum_grey(const AdjustParams& p, const T* image, PrepareShared<T>& shared) {
  constexpr int kRows = kPrepareThreads;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  double sum = 0.0;
  for (int64_t first = 0; first < p.height; first += kRows) {
    const int rows = static_cast<int>(p.height - first < kRows ? p.height - first : kRows);
    if (first > 0) __syncthreads();  // the first thread has read the last ones
    for (int y = threadIdx.x / kWarpLanes; y < rows; y += kPrepareThreads / kWarpLanes) {
      const double of_row = sum_lanes(grey_of_lane(p, image + (first + y) * p.width, lane));
      if (lane == 0) shared.row_sum[y] = of_row;
    }
    __syncthreads();
    for (int y = 0; threadIdx.x == 0 && y < rows; ++y) sum += shared.row_sum[y];
  }
  return sum;
}

// Counts the levels of a channel, then sums them up: count[v] becomes the pixels below v, as all
// threads see behind their next barrier. Returns the step of the equalization.
template <class T>
__device__ int64_t sum_levels(const T* data, int64_t pixels, PrepareShared<T>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kLevelCount) shared.count[thread] = 0;
  if (thread == 0) shared.last = 0;
  __syncthreads();
  each_value<kPrepareThreads>(data, pixels,
                              [&](T value) { atomicAdd(&shared.count[level_of(value)], 1u); });
  __syncthreads();
  unsigned own = 0;
  if (thread < kLevelCount) own = shared.count[thread];
  if (own > 0) atomicMax(&shared.last, thread);
  __syncthreads();
  const auto last = static_cast<int64_t>(shared.count[shared.last]);
  sum_up(shared.count);
  if (thread < kLevelCount) shared.count[thread] -= own;
  return equalizing_step(pixels, last);
}

template <class T>
__global__ void __launch_bounds__(kPrepareThreads, 2)
    prepare_adjustments(const __grid_constant__ AdjustParams p,
                        const __grid_constant__ Adjustments adjustments,
                        const AdjustScratch scratch) {
  __shared__ PrepareShared<T> shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t pixels = p.pixels();
  for (int64_t i = blockIdx.x; i < adjustments.count * p.channels; i += gridDim.x) {
    const int64_t image = i / p.channels, channel = i - image * p.channels;
    const Adjustment a = adjustments.of_image[image];
    if (a.kind == kElsewhere) continue;
    const int64_t position = (adjustments.first + image) * p.channels + channel;
    const T* const first = static_cast<const T*>(p.images) + (adjustments.first + image) * p.size();
    const T* const data = first + channel * pixels;
    int64_t step = 0;
    if (thread == 0) shared.numbers = {0.0f, 0.0f, true};  // and no other thread changes them
    if (a.kind == PixelKind::kAutocontrast) {
      find_extremes(data, pixels, shared);
    } else if (a.kind == PixelKind::kEqualize) {
      step = sum_levels(data, pixels, shared);
    } else if (a.kind == PixelKind::kContrast && channel == 0) {
      const double sum = sum_grey(p, first, shared);
      const float mean = static_cast<float>(sum / static_cast<double>(pixels));
      if (thread == 0) shared.numbers.low = a.rest * mean;
    } else if (a.kind == PixelKind::kToneCurve && thread == 0) {
      const ToneCurve curve = tone_curve(a.deviation, a.key, a.per_channel ? channel : 0);
      shared.numbers = {curve.low, curve.high, true};
    }
    __syncthreads();
    const ChannelNumbers numbers = shared.numbers;
    // The first channel's contrast is that of all.
    const bool is_contrast = a.kind == PixelKind::kContrast;
    const int64_t channels = is_contrast ? (channel == 0 ? p.channels : 0) : 1;
    for (int64_t c = 0; c < channels; ++c) {
      if (thread == 0) scratch.numbers[position + c] = numbers;
      if (thread >= kLevelCount || !has_table(a.kind, sizeof(T) == 1)) continue;
      uint8_t entry = static_cast<uint8_t>(thread);
      if (a.kind == PixelKind::kEqualize) {
        if (step > 0) entry = equalized(static_cast<int64_t>(shared.count[thread]), step, thread);
      } else {
        entry = adjusted(a, numbers, entry);
      }
      scratch.table[(position + c) * kLevelCount + thread] = entry;
    }
    __syncthreads();  // before the next channel's numbers replace these
  }
}

// A part of a channel: pixels [begin, end).
template <class T>
struct AdjustPart {
  const T* from;
  T* to;
  int64_t begin, end;
};

// Bytes by a table in shared memory, four at a time where they lie so.
__device__ inline void look_up(const AdjustPart<uint8_t>& part, const uint8_t* table) {
  const int thread = static_cast<int>(threadIdx.x);
  const uint8_t* const from = part.from + part.begin;
  uint8_t* const to = part.to + part.begin;
  const int64_t count = part.end - part.begin;
  int64_t done = 0;
  if (reinterpret_cast<uintptr_t>(from) % 4 == 0 && reinterpret_cast<uintptr_t>(to) % 4 == 0) {
    done = count / 4 * 4;
    for (int64_t i = thread; i < count / 4; i += kAdjustThreads) {
      uint32_t word;
      memcpy(&word, from + 4 * i, 4);
      word = table[word & 255] | static_cast<uint32_t>(table[word >> 8 & 255]) << 8 |
             static_cast<uint32_t>(table[word >> 16 & 255]) << 16 |
             static_cast<uint32_t>(table[word >> 24]) << 24;
      memcpy(to + 4 * i, &word, 4);
    }
  }
  for (int64_t i = done + thread; i < count; i += kAdjustThreads) to[i] = table[from[i]];
}

__device__ inline void equalize(const AdjustPart<float>& part, const uint8_t* table) {
  for (int64_t i = part.begin + threadIdx.x; i < part.end; i += kAdjustThreads) {
    part.to[i] = static_cast<float>(table[level_of(part.from[i])]) / 255.0f;
  }
}

template <class T>
__device__ void sharpen(const AdjustParams& p, const AdjustPart<T>& part, float rest) {
  for (int64_t i = part.begin + threadIdx.x; i < part.end; i += kAdjustThreads) {
    const int64_t y = i / p.width, x = i - y * p.width;
    const bool inside = y > 0 && y + 1 < p.height && x > 0 && x + 1 < p.width;
    const T* const at = part.from + i;
    part.to[i] = inside ? sharpened(at - p.width, at, at + p.width, rest) : *at;
  }
}

__device__ inline bool takes_colors(PixelKind kind) {
  return kind == PixelKind::kSaturation || kind == PixelKind::kBleach;
}

// Operations on three channels of a pixel.
template <class T>
__device__ void recolor_part(const AdjustParams& p, const AdjustPart<T>& part,
                             const Adjustment& a) {
  const int64_t pixels = p.pixels();
  for (int64_t i = part.begin + threadIdx.x; i < part.end; i += kAdjustThreads) {
    T r = part.from[i], g = part.from[i + pixels], b = part.from[i + 2 * pixels];
    if (a.kind == PixelKind::kBleach) {
      bleach(r, g, b, a.amount, a.rest);
    } else {
      saturate(r, g, b, a.amount, a.rest);
    }
    part.to[i] = r;
    part.to[i + pixels] = g;
    part.to[i + 2 * pixels] = b;
  }
}

template <class T>
__global__ void __launch_bounds__(kAdjustThreads)
    adjust_pixels(const __grid_constant__ AdjustParams p,
                  const __grid_constant__ Adjustments adjustments, const AdjustScratch scratch,
                  const int64_t parts) {
  __shared__ uint8_t table[kLevelCount];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t pixels = p.pixels();
  for (int64_t i = blockIdx.x; i < adjustments.count * p.channels * parts; i += gridDim.x) {
    const int64_t of_batch = i / parts, image = of_batch / p.channels;
    const int64_t channel = of_batch - image * p.channels;
    const Adjustment a = adjustments.of_image[image];
    if (a.kind == kElsewhere) continue;
    const int64_t position = adjustments.first * p.channels + of_batch;
    const int64_t begin = (i - of_batch * parts) * kPartPixels;
    const int64_t end = begin + kPartPixels < pixels ? begin + kPartPixels : pixels;
    const AdjustPart<T> part = {static_cast<const T*>(p.images) + position * pixels,
                                static_cast<T*>(p.output) + position * pixels, begin, end};
    if (has_table(a.kind, sizeof(T) == 1)) {
      __syncthreads();  // the last part is done with its table
      if (thread < kLevelCount) table[thread] = scratch.table[position * kLevelCount + thread];
      __syncthreads();
      if constexpr (sizeof(T) == 1) {
        look_up(part, table);
      } else {
        equalize(part, table);
      }
    } else if (a.kind == PixelKind::kSharpness && p.height > 2 && p.width > 2) {
      sharpen(p, part, a.rest);
    } else if (takes_colors(a.kind) && p.channels >= 3 && channel < 3) {
      if (channel == 0) recolor_part(p, part, a);
    } else {
      const ChannelNumbers numbers = scratch.numbers[position];
      for (int64_t k = begin + thread; k < end; k += kAdjustThreads) {
        part.to[k] = adjusted(a, numbers, part.from[k]);
      }
    }
  }
}

template <class T>
void adjust_as(const AdjustParams& p, Workspace& workspace) {
  const auto is_elsewhere = [&](const PixelOperation& operation) {
    const PixelKind kind = operation.kind;
    return is_noise(kind) || is_small_filter(kind) || is_blur(kind) || kind == PixelKind::kClahe ||
           kind == PixelKind::kDownscale || kind == PixelKind::kJpeg || is_shading(kind) ||
           kind == PixelKind::kMorphology || is_median(operation) || changes_hsv(p, operation);
  };
  add_noises<T>(p, workspace.stream());
  change_hsvs<T>(p, workspace.stream());
  shade_images<T>(p, workspace);
  blur_by_medians<T>(p, workspace.stream());
  equalize_tiles<T>(p, workspace);
  compress_jpegs<T>(p, workspace);
  downscale_images<T>(p, workspace);
  filter_images<T>(p, workspace);
  dilate_images<T>(p, workspace.stream());
  blur_images<T>(p, workspace);
  if (std::all_of(p.operations, p.operations + p.batch, is_elsewhere)) return;
  const int64_t channels = p.batch * p.channels;
  const AdjustScratch scratch = {allocate<ChannelNumbers>(workspace, channels),
                                 allocate<uint8_t>(workspace, channels * kLevelCount)};
  const int64_t parts = parts_of(p.pixels(), kPartPixels);
  for (int64_t first = 0; first < p.batch; first += kMostAdjusted) {
    Adjustments adjustments = {};
    adjustments.first = first;
    adjustments.count = static_cast<int32_t>(std::min<int64_t>(kMostAdjusted, p.batch - first));
    for (int i = 0; i < adjustments.count; ++i) {
      const PixelOperation& operation = p.operations[first + i];
      adjustments.of_image[i] = adjustment_of<T>(operation);
      if (is_elsewhere(operation)) adjustments.of_image[i].kind = kElsewhere;
    }
    launch(prepare_adjustments<T>, grid_for(adjustments.count * p.channels), dim3(kPrepareThreads),
           0, workspace.stream(), p, adjustments, scratch);
    launch(adjust_pixels<T>, grid_for(adjustments.count * p.channels * parts), dim3(kAdjustThreads),
           0, workspace.stream(), p, adjustments, scratch, parts);
  }
  drop_out<T>(p, workspace);
}

void adjust_cuda(const AdjustParams& p, Workspace& workspace) {
  if (p.dtype == DType::kUInt8) return adjust_as<uint8_t>(p, workspace);
  adjust_as<float>(p, workspace);
}

const bool registered = adjust_stub.set(kCudaSlot, adjust_cuda);

}  // namespace
}  // namespace visops
