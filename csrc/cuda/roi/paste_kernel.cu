// NOTE [ Pasting on CUDA ]
// A block has 32 x 8 pixels of an image and four channels; a thread keeps its pixel's values. The
// threads go through the boxes together, one each at a time, and list those that cover some of the
// tile; each thread blends them into its own pixel, by index. A pixel is read and written once.
//
// Where a column, or row, of the tile lies on a patch takes float64, and all its pixels share it:
// for a few boxes of the list at a time, 32 + 8 threads compute each once, with the weights of a
// feathered edge, and leave them in shared memory.
//
// Rounding: NOTE [ Pasted pixels ] (core/roi/paste.h), without contraction (-fmad=false), so the
// bits are the CPU's.
#include "core/dispatch/workspace.h"
#include "core/roi/paste.h"
#include "cuda/pixel_gradient.h"
#include "cuda/roi/crops_tiles.h"
#include "cuda/roi/paste_cubic.h"

namespace visops {
namespace {

constexpr int kMapThreads = 128;
constexpr int kTileLines = kTargetWidth + kTargetHeight;
constexpr int kBoxesAtOnce = kListThreads / kTileLines;

// What pixels of a tile's columns and rows need to know of some boxes.
template <Interpolation mode, class Acc>
struct PastedLines {
  AxisTaps<mode, Acc> taps[kBoxesAtOnce][kTileLines];  // columns, then rows; of a copy: index[0]
  Acc feather[kBoxesAtOnce][kTileLines];
};

// Called by one thread per line of a box: sets line `line` of box k, the `n`-th at once.
template <Interpolation mode, class Acc>
__device__ void position_line(const RoiPasteParams& p, const TargetTile& at, int64_t k, int n,
                              int line, PastedLines<mode, Acc>* lines) {
  constexpr auto padding = Padding::kReplicate;
  const CropMap& map = p.maps[k];
  const bool is_column = line < kTargetWidth;
  const int64_t position = is_column ? at.x + line : at.y + (line - kTargetWidth);
  const GridAxis axis = is_column ? map.x : map.y;
  const int64_t size = is_column ? p.patch_width : p.patch_height;
  if (map.integral) {
    constexpr auto nearest = Interpolation::kNearest;
    AxisTaps<mode, Acc> taps = {};  // whole, for it is copied whole
    taps.index[0] = grid_taps<nearest, Acc>(axis, position, padding, size).index[0];
    lines->taps[n][line] = taps;
  } else {
    lines->taps[n][line] = grid_taps<mode, Acc>(axis, position, padding, size);
  }
  if (p.blend == PasteBlend::kFeather) {
    lines->feather[n][line] = feather_weight<Acc>(
        feather_width(p, map), is_column ? map.x1 : map.y1, is_column ? map.x2 : map.y2, position);
  }
}

// patch_at() with the taps of its lines.
template <class T, Interpolation mode, class Acc>
__device__ Acc patch_of(const CropMap& map, const T* plane, const Strides& stride,
                        const AxisTaps<mode, Acc>& down, const AxisTaps<mode, Acc>& across) {
  if (map.integral) {
    const T element =
        load_readonly(plane + down.index[0] * stride.row + across.index[0] * stride.column);
    return load_element(&element);
  }
  if constexpr (mode == Interpolation::kBicubic) {
    return sample_cubic<2>(plane, stride, down, [&](int j, int32_t* index, Acc* weight) {
      *index = across.index[j];
      *weight = across.weight[j];
    });
  } else {
    return taken(plane, stride, PixelTaps<mode, Acc>{down, across}, static_cast<Acc>(0));
  }
}

__global__ void __launch_bounds__(kMapThreads)
    roi_paste_maps(const __grid_constant__ RoiPasteParams p) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kMapThreads;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x; k < p.boxes.count;
       k += stride) {
    p.maps[k] = paste_map(p, k);
  }
}

// Blends box k, the `n`-th at once, into the thread's pixel.
template <class T, Interpolation mode, class Acc>
__device__ void paste_box(const RoiPasteParams& p, const TargetTile& at, int64_t k, int n,
                          const PastedLines<mode, Acc>& lines, int channels,
                          Acc value[kChannelGroup]) {
  const CropMap& map = p.maps[k];
  const int column = static_cast<int>(threadIdx.x) % kTargetWidth;
  const int row = kTargetWidth + static_cast<int>(threadIdx.x) / kTargetWidth;
  const AxisTaps<mode, Acc>&down = lines.taps[n][row], &across = lines.taps[n][column];
  Acc weight = static_cast<Acc>(1);
  if (p.blend == PasteBlend::kFeather) {
    const Acc wy = lines.feather[n][row], wx = lines.feather[n][column];
    weight = wy < wx ? wy : wx;
  } else if (p.blend != PasteBlend::kReplace) {
    const Strides stride = alpha_strides(p);
    weight =
        patch_of(map, static_cast<const Acc*>(p.alpha) + k * stride.batch, stride, down, across);
  }
  const T* patch = static_cast<const T*>(p.patches) + k * p.patch_stride.batch +
                   at.channel * p.patch_stride.channel;
  for (int c = 0; c < kChannelGroup; ++c) {
    if (c >= channels) break;
    const Acc sample =
        patch_of(map, patch + c * p.patch_stride.channel, p.patch_stride, down, across);
    value[c] = p.blend == PasteBlend::kReplace ? sample : blended(weight, sample, value[c]);
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kListThreads, sizeof(typename Accumulate<T>::type) == 8 ? 3 : 4)
    roi_paste(const __grid_constant__ RoiPasteParams p, const TargetGrid grid) {
  using Acc = typename Accumulate<T>::type;
  __shared__ BoxList<kListThreads> list;
  __shared__ PastedLines<mode, Acc> lines;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t piece = blockIdx.x; piece < grid.count; piece += gridDim.x) {
    const TargetTile at = target_tile(grid, piece);
    const int64_t y = at.y + thread / kTargetWidth, x = at.x + thread % kTargetWidth;
    const int channels = channels_of_group(p.channels, at.channel);
    const bool is_inside = y < p.height && x < p.width;
    Acc value[kChannelGroup] = {};
    T given[kChannelGroup] = {};
    bool is_covered = false;
    if (is_inside) {
      const T* image = static_cast<const T*>(p.images) + at.sample * p.image_stride.batch +
                       at.channel * p.image_stride.channel + y * p.image_stride.row +
                       x * p.image_stride.column;
      for (int c = 0; c < kChannelGroup; ++c) {
        if (c < channels) given[c] = load_readonly(image + c * p.image_stride.channel);
        value[c] = load_element(&given[c]);
      }
    }
    for (int64_t first = 0; first < p.boxes.count; first += kListThreads) {
      clear_list(&list);
      const int64_t mine = first + thread;
      bool is_wanted = false;
      if (mine < p.boxes.count) {
        const CropMap& map = p.maps[mine];
        const Span rows = {at.y, int64_t{at.y} + kTargetHeight};
        const Span columns = {at.x, int64_t{at.x} + kTargetWidth};
        is_wanted =
            map.image == at.sample && overlap(map.rows, rows) && overlap(map.columns, columns);
      }
      append_box(is_wanted, static_cast<int32_t>(mine), &list);
      for (int begin = 0; begin < list.count; begin += kBoxesAtOnce) {
        const int boxes = list.count - begin < kBoxesAtOnce ? list.count - begin : kBoxesAtOnce;
        const int box = thread / kTileLines;
        if (box < boxes) {
          position_line(p, at, list.boxes[begin + box], box, thread % kTileLines, &lines);
        }
        __syncthreads();
        for (int n = 0; n < boxes && is_inside; ++n) {
          const int64_t k = list.boxes[begin + n];
          if (!covers(p.maps[k], at.sample, y, x)) continue;
          is_covered = true;
          paste_box<T>(p, at, k, n, lines, channels, value);
        }
        __syncthreads();  // before other boxes' lines replace these
      }
      __syncthreads();  // before the list is cleared
    }
    if (!is_inside) continue;
    T* out = static_cast<T*>(p.output) + at.sample * p.output_stride.batch +
             at.channel * p.output_stride.channel + y * p.output_stride.row +
             x * p.output_stride.column;
    for (int c = 0; c < kChannelGroup; ++c) {
      if (c >= channels) continue;
      T* element = out + c * p.output_stride.channel;
      if (is_covered) {
        store_element(element, value[c]);
      } else {
        *element = given[c];
      }
    }
  }
}

template <class T, Interpolation mode>
void paste_as(const RoiPasteParams& p, void* stream) {
  const TargetGrid grid = target_grid(p.batch, p.channels, p.height, p.width);
  launch(roi_paste<T, mode>, grid_for(grid.count), dim3(kListThreads), 0, stream, p, grid);
}

template <class T>
void paste_of(const RoiPasteParams& p, void* stream) {
  with_mode(p.mode, [&](auto mode) { paste_as<T, mode.value>(p, stream); });
}

void roi_paste_cuda(const RoiPasteParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  switch (p.dtype) {
    case DType::kUInt8: return paste_of<uint8_t>(p, stream);
    case DType::kInt16: return paste_of<int16_t>(p, stream);
    case DType::kUInt16: return paste_of<uint16_t>(p, stream);
    case DType::kFloat16: return paste_of<Half>(p, stream);
    case DType::kBFloat16: return paste_of<BFloat16>(p, stream);
    case DType::kFloat64: return paste_of<double>(p, stream);
    default: return paste_of<float>(p, stream);
  }
}

void roi_paste_maps_cuda(const RoiPasteParams& p, Workspace& workspace) {
  launch(roi_paste_maps, grid_for((p.boxes.count + kMapThreads - 1) / kMapThreads),
         dim3(kMapThreads), 0, workspace.stream(), p);
}

const bool registered = roi_paste_maps_stub.set(kCudaSlot, roi_paste_maps_cuda) &&
                        roi_paste_stub.set(kCudaSlot, roi_paste_cuda);

}  // namespace
}  // namespace visops
