// NOTE [ Gradients of pasting on CUDA ]
// A block has 32 x 8 pixels of a patch and four of its channels, or of its alpha. It lists the
// boxes that share pixels with its own. Then each thread adds up the pixels that its element was
// sampled for (NOTE [ Transposed samples on CUDA ]), each times its patch_share()
// (core/roi/paste_pixel.h). If more boxes overlap than the list holds, it goes through all boxes.
// Taps, and the weights of feathered edges, come from NOTE [ Tables of a grid ]: the
// grid is the image's pixels here, and a patch is sampled.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
#include "core/element_types.h"
#include "core/roi/paste_pixel.h"
#include "cuda/roi/crops_lists.h"
#include "cuda/roi/crops_transpose.h"

namespace visops {
namespace {

constexpr int kMostNeighbours = 1024;

template <class Acc>
__global__ void __launch_bounds__(kTableThreads)
    write_feather(const __grid_constant__ RoiPasteParams p, const int64_t lines, Acc* feather) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kTableThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kTableThreads + threadIdx.x;
       i < p.boxes.count * lines; i += stride) {
    const LineOfBox line(i, lines, p.width);
    const CropMap& map = p.maps[line.box];
    if (!contains(line.is_column ? map.columns : map.rows, line.place)) continue;
    feather[i] = feather_weight<Acc>(feather_width(p, map), line.is_column ? map.x1 : map.y1,
                                     line.is_column ? map.x2 : map.y2, line.place);
  }
}

// PixelSampler, with taps and weights from tables.
template <class Acc_>
struct TableSampler {
  using Acc = Acc_;
  const RoiPasteParams& p;
  const GridTables<Acc>& tables;
  const Acc* feather;  // [boxes, lines]

  __device__ Acc weight(int64_t k, int64_t y, int64_t x) const {
    if (p.blend == PasteBlend::kReplace) return static_cast<Acc>(1);
    if (p.blend == PasteBlend::kFeather) {
      const Acc* of_box = feather + k * tables.lines;
      const Acc wy = of_box[tables.columns + y], wx = of_box[x];
      return wy < wx ? wy : wx;
    }
    const Strides stride = alpha_strides(p);
    return sample(k, static_cast<const Acc*>(p.alpha) + k * stride.batch, stride, y, x);
  }

  template <class T>
  __device__ Acc sample(int64_t k, const T* plane, const Strides& stride, int64_t y,
                        int64_t x) const {
    const int64_t down = tables.row(k, y), across = tables.column(k, x);
    if (p.mode == Interpolation::kNearest || p.maps[k].integral) {
      return sample_as<Interpolation::kNearest>(plane, stride, down, across);
    }
    return p.mode == Interpolation::kBilinear
               ? sample_as<Interpolation::kBilinear>(plane, stride, down, across)
               : sample_as<Interpolation::kBicubic>(plane, stride, down, across);
  }

 private:
  template <Interpolation mode, class T>
  __device__ Acc sample_as(const T* plane, const Strides& stride, int64_t down,
                           int64_t across) const {
    const PixelTaps<mode, Acc> taps = {tables.template taps_at<mode>(down),
                                       tables.template taps_at<mode>(across)};
    return taken(plane, stride, taps, static_cast<Acc>(0));
  }
};

// The incoming gradient of a box's pixels, from a group's first channel on.
template <class T, class Acc = typename Accumulate<T>::type>
struct IncomingPixels {
  const TableSampler<Acc>& sampler;
  PasteNeighbours neighbours;
  int64_t k;
  const T* grad;
  const T* element = nullptr;
  Acc share = 0;

  __device__ void place(int64_t y, int64_t x) {
    const Strides& stride = sampler.p.grad_stride;
    element = grad + y * stride.row + x * stride.column;
    share = patch_share(sampler, neighbours, k, y, x);
  }
  __device__ Acc at(int c) const {
    const T value = load_readonly(element + c * sampler.p.grad_stride.channel);
    return load_element(&value) * share;
  }
};

template <class T, class Acc = typename Accumulate<T>::type>
struct IncomingAlpha {
  const TableSampler<Acc>& sampler;
  PasteNeighbours neighbours;
  int64_t k;
  Acc value = 0;

  __device__ void place(int64_t y, int64_t x) {
    value = alpha_gradient<T>(sampler, neighbours, k, y, x);
  }
  __device__ Acc at(int) const { return value; }
};

// Lists the boxes that may share pixels with box k. Called by all threads of the block, which
// synchronise here.
__device__ inline void list_neighbours(const BoxesOfMaps& boxes, const CropMap& map,
                                       BoxList<kMostNeighbours>* list) {
  clear_list(list);
  const BoxRange of_image = boxes.of_map[map.image];
  for (int64_t first = of_image.begin; first < of_image.end; first += kListThreads) {
    RoiSpan span = {};
    bool is_wanted = first + threadIdx.x < of_image.end;
    if (is_wanted) {
      span = boxes.spans[first + threadIdx.x];
      is_wanted =
          meets(span, map.rows.begin, map.rows.end - 1, map.columns.begin, map.columns.end - 1);
    }
    append_box(is_wanted, static_cast<int32_t>(span.box), list);
  }
}

template <class T, bool of_alpha, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kListThreads, 2)
    roi_paste_backward(const __grid_constant__ RoiPasteParams p, const BoxesOfMaps boxes,
                       const __grid_constant__ GridTables<Acc> tables, const Acc* feather,
                       const TargetGrid grid) {
  __shared__ BoxList<kMostNeighbours> list;
  const int thread = static_cast<int>(threadIdx.x);
  const TableSampler<Acc> sampler = {p, tables, feather};
  for (int64_t piece = blockIdx.x; piece < grid.count; piece += gridDim.x) {
    const TargetTile at = target_tile(grid, piece);
    const int64_t y = at.y + thread / kTargetWidth, x = at.x + thread % kTargetWidth;
    const int64_t k = at.sample;
    const CropMap& map = p.maps[k];
    Acc sum[kChannelGroup] = {};
    if (map.image >= 0) {
      list_neighbours(boxes, map, &list);
      const bool is_whole = list.count <= kMostNeighbours;
      const PasteNeighbours neighbours = {is_whole ? list.boxes : nullptr,
                                          is_whole ? list.count : p.boxes.count};
      if (y < p.patch_height && x < p.patch_width) {
        if constexpr (of_alpha) {
          IncomingAlpha<T> values = {sampler, neighbours, k};
          gather_transposed(tables, k, y, x, 1, values, sum);
        } else {
          const T* grad = incoming_gradient<T>(p, map.image, at.channel);
          IncomingPixels<T> values = {sampler, neighbours, k, grad};
          gather_transposed(tables, k, y, x, channels_of_group(p.channels, at.channel), values,
                            sum);
        }
      }
      __syncthreads();  // before the list is cleared
    }
    if (y >= p.patch_height || x >= p.patch_width) continue;
    const PasteTarget target = paste_target(p);
    const Strides& stride = target.stride;
    const int channels = channels_of_group(target.channels, at.channel);
    Acc* out = static_cast<Acc*>(target.data) + k * stride.batch + at.channel * stride.channel +
               y * stride.row + x * stride.column;
    for (int c = 0; c < kChannelGroup; ++c) {
      if (c < channels) out[c * stride.channel] = sum[c];
    }
  }
}

template <class T, class Acc = typename Accumulate<T>::type>
void backward_of(const RoiPasteParams& p, Workspace& workspace) {
  const Grids grids = {p.maps,  p.boxes.count, p.batch,       p.mode,        Padding::kReplicate,
                       p.width, p.height,      p.patch_width, p.patch_height};
  const GridTables<Acc> tables = make_grid_tables<Acc>(grids, workspace);
  const BoxesOfMaps boxes = list_grids(grids, true, workspace);
  Acc* feather = nullptr;
  if (p.blend == PasteBlend::kFeather) {
    const int64_t lines = p.boxes.count * tables.lines;
    feather = allocate<Acc>(workspace, lines);
    launch(write_feather<Acc>, grid_for((lines + kTableThreads - 1) / kTableThreads),
           dim3(kTableThreads), 0, workspace.stream(), p, tables.lines, feather);
  }
  const TargetGrid grid =
      target_grid(p.boxes.count, paste_target(p).channels, p.patch_height, p.patch_width);
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for(grid.count), dim3(kListThreads), 0, workspace.stream(), p, boxes,
           tables, static_cast<const Acc*>(feather), grid);
  };
  if (p.grad_alpha != nullptr) {
    start(roi_paste_backward<T, true>);
  } else {
    start(roi_paste_backward<T, false>);
  }
}

void roi_paste_backward_cuda(const RoiPasteParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    backward_of<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = roi_paste_backward_stub.set(kCudaSlot, roi_paste_backward_cuda);

}  // namespace
}  // namespace visops
