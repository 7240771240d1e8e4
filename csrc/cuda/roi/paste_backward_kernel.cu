// NOTE [ Gradients of pasting on CUDA ]
// A block has 32 x 8 pixels of a patch and four of its channels, or of its alpha. It lists the
// boxes that share with its own some of the image's pixels that the tile was sampled for. Each of
// these pixels has a share in the gradient, its patch_share() (core/roi/paste.h), computed
// once for the tile; then each thread adds up those that its element was sampled for (NOTE
// [ Transposed samples on CUDA ]). If more boxes overlap than the list holds, shares go through all
// boxes of the image.
// Taps, and the weights of feathered edges, come from NOTE [ Tables of a grid ]: the
// grid is the image's pixels here, and a patch is sampled.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
#include "core/numbers/element.h"
#include "core/roi/paste.h"
#include "cuda/roi/crops_tiles.h"
#include "cuda/roi/crops_transpose.h"
#include "cuda/roi/paste_cubic.h"

namespace visops {
namespace {

constexpr int kMostNeighbours = 256;

template <class Acc>
__global__ void __launch_bounds__(kTableThreads)
    write_feather(const __grid_constant__ RoiPasteParams p, const int64_t lines, Acc* feather) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kTableThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kTableThreads + threadIdx.x;
       i < p.boxes.count * lines; i += stride) {
    const LineOfBox line(i, lines, p.width);
    const CropMap& map = p.maps[line.box];
    if (!contains(line.is_column ? map.columns : map.rows, line.position)) continue;
    feather[i] = feather_weight<Acc>(feather_width(p, map), line.is_column ? map.x1 : map.y1,
                                     line.is_column ? map.x2 : map.y2, line.position);
  }
}

// PixelSampler, with taps and weights from tables; bicubic takes some columns of taps at once.
template <class Acc_, int columns>
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
               : sample_cubic<columns>(plane, stride,
                                       tables.template taps_at<Interpolation::kBicubic>(down),
                                       [&](int j, int32_t* index, Acc* weight) {
                                         *index = tables.index[across + j * tables.lines];
                                         *weight = tables.weight[across + j * tables.lines];
                                       });
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

// PasteNeighbours, with the spans of their pixels.
struct NeighbourSpans {
  const RoiSpan* spans;
  int count;

  __device__ int64_t at(int64_t i) const { return spans[i].box; }
  __device__ bool covers(int64_t i, int64_t y, int64_t x) const {
    return meets(spans[i], y, y, x, x);
  }
};

// The incoming gradient of a box's pixels, from a group's first channel on.
template <class T, class Sampler, class Acc = typename Accumulate<T>::type>
struct IncomingPixels {
  const Sampler& sampler;
  NeighbourSpans neighbours;
  int64_t k;
  const T* grad;
  const T* element = nullptr;
  Acc share = 0;

  __device__ void position(int64_t y, int64_t x) {
    const Strides& stride = sampler.p.grad_stride;
    element = grad + y * stride.row + x * stride.column;
    share = patch_share(sampler, neighbours, k, y, x);
  }
  __device__ Acc at(int c) const {
    const T value = load_readonly(element + c * sampler.p.grad_stride.channel);
    return load_element(&value) * share;
  }
};

template <class T, class Sampler, class Acc = typename Accumulate<T>::type>
struct IncomingAlpha {
  const Sampler& sampler;
  NeighbourSpans neighbours;
  int64_t k;
  Acc value = 0;

  __device__ void position(int64_t y, int64_t x) {
    value = alpha_gradient<T>(sampler, neighbours, k, y, x);
  }
  __device__ Acc at(int) const { return value; }
};

// The boxes other than k that cover some of these pixels of its image: of those before k, only
// alpha's gradient needs to know. Called by all threads of the block, which synchronise here.
template <bool of_alpha>
__device__ NeighbourSpans list_neighbours(const BoxesOfMaps& boxes, int64_t image, int64_t k,
                                          const Positions& rows, const Positions& columns,
                                          BoxList<kMostNeighbours, RoiSpan>* list) {
  clear_list(list);
  const BoxRange of_image = boxes.of_map[image];
  for (int64_t first = of_image.begin; first < of_image.end; first += kListThreads) {
    RoiSpan span = {};
    bool is_wanted = first + threadIdx.x < of_image.end;
    if (is_wanted) {
      span = boxes.spans[first + threadIdx.x];
      is_wanted = (of_alpha ? span.box != k : span.box > k) &&
                  meets(span, rows.begin, rows.end - 1, columns.begin, columns.end - 1);
    }
    append_box(is_wanted, span, list);
  }
  if (list->count <= kMostNeighbours) return {list->boxes, list->count};
  return {boxes.spans + of_image.begin, static_cast<int>(of_image.end - of_image.begin)};
}

// Blocks of a multiprocessor, such that no register is spilled.
template <class Acc>
constexpr int kBlocksAtOnce = sizeof(Acc) == 8 ? 2 : 4;

template <class T, bool of_alpha, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kListThreads, kBlocksAtOnce<Acc>)
    roi_paste_backward(const __grid_constant__ RoiPasteParams p, const BoxesOfMaps boxes,
                       const __grid_constant__ GridTables<Acc> tables, const Acc* feather,
                       const TargetGrid grid) {
  __shared__ BoxList<kMostNeighbours, RoiSpan> list;
  __shared__ TransposeStage<Acc> stage;
  const int thread = static_cast<int>(threadIdx.x);
  using Sampler = TableSampler<Acc, of_alpha ? 1 : 2>;  // alpha's gradient takes many samples
  const Sampler sampler = {p, tables, feather};
  for (int64_t piece = blockIdx.x; piece < grid.count; piece += gridDim.x) {
    const TargetTile at = target_tile(grid, piece);
    const int64_t k = at.sample, image = p.maps[k].image;
    const int64_t channel = of_alpha ? 0 : at.channel;
    const int channels = of_alpha ? 1 : channels_of_group(p.channels, channel);
    Acc sum[kChannelGroup] = {};
    if (image >= 0 && find_positions(tables, k, at, p.patch_height, p.patch_width, &stage)) {
      const NeighbourSpans neighbours =
          list_neighbours<of_alpha>(boxes, image, k, stage.rows, stage.columns, &list);
      if constexpr (of_alpha) {
        IncomingAlpha<T, Sampler> values = {sampler, neighbours, k};
        gather_transposed(tables, k, at, channels, values, &stage, sum);
      } else {
        const T* grad = incoming_gradient<T>(p, image, channel);
        IncomingPixels<T, Sampler> values = {sampler, neighbours, k, grad};
        gather_transposed(tables, k, at, channels, values, &stage, sum);
      }
    }
    const int64_t y = at.y + thread / kTargetWidth, x = at.x + thread % kTargetWidth;
    if (y >= p.patch_height || x >= p.patch_width) continue;
    const PasteTarget target = paste_target(p);
    const Strides& stride = target.stride;
    Acc* out = static_cast<Acc*>(target.data) + k * stride.batch + channel * stride.channel +
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
