// NOTE [ Gradients of pasting on the CPU ]
// Work is split by row of the patches (NOTE [ Transposed samples on the CPU ]). The grid is the
// box's pixels; a pixel's value is the incoming gradient times patch_share()
// (core/roi/paste.h), computed once for all channels. Assumes what check_roi_paste()
// establishes; gradients are floating.
#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "core/roi/paste.h"
#include "cpu/items.h"
#include "cpu/roi/crops_rows.h"

namespace visops {
namespace {

constexpr int64_t kMostNeighbours = 1024;

// Lists the boxes that share pixels with one box.
struct Neighbours {
  int32_t listed[kMostNeighbours];

  PasteNeighbours of(const RoiPasteParams& p, int64_t k) {
    const CropMap& map = p.maps[k];
    int64_t count = 0;
    for (int64_t l = 0; l < p.boxes.count; ++l) {
      if (!are_neighbours(p.maps[l], map)) continue;
      if (count == kMostNeighbours) return {p.maps, map.image, nullptr, p.boxes.count};
      listed[count++] = static_cast<int32_t>(l);
    }
    return {p.maps, map.image, listed, count};
  }
};

template <class T, Interpolation mode>
struct IncomingPixels {
  using Acc = typename Accumulate<T>::type;

  const RoiPasteParams& p;
  PasteNeighbours neighbours;
  int64_t k;
  const T* grad;  // of the image
  int64_t first = 0;
  Acc share[kMostPositions] = {};

  void prepare(int64_t y, Span columns) {
    first = columns.begin;
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      share[x - first] = patch_share(PixelSampler<mode, Acc>{p}, neighbours, k, y, x);
    }
  }
  VISOPS_ALWAYS_INLINE Acc at(int64_t c, int64_t y, int64_t x) const {
    const T* element =
        grad + c * p.grad_stride.channel + y * p.grad_stride.row + x * p.grad_stride.column;
    return load_element(element) * share[x - first];
  }
};

template <class T, Interpolation mode>
struct IncomingAlpha {
  using Acc = typename Accumulate<T>::type;

  const RoiPasteParams& p;
  PasteNeighbours neighbours;
  int64_t k;

  void prepare(int64_t, Span) const {}
  Acc at(int64_t, int64_t y, int64_t x) const {
    return alpha_gradient<T>(PixelSampler<mode, Acc>{p}, neighbours, k, y, x);
  }
};

// A box of whole pixels has nearest taps; `mode` is for all others.
template <Interpolation mode, class Acc, class Values>
void add_box(const CropMap& map, const TransposeTarget<Acc>& target, Span rows, Values& values) {
  if (map.integral) {
    constexpr auto nearest = Interpolation::kNearest;
    return add_transposed<nearest>(map, Padding::kReplicate, target, rows, values);
  }
  add_transposed<mode>(map, Padding::kReplicate, target, rows, values);
}

template <class T, Interpolation mode>
void patch_rows(const RoiPasteParams& p, int64_t k, Span rows) {
  using Acc = typename Accumulate<T>::type;
  const CropMap& map = p.maps[k];
  const PasteTarget of = paste_target(p);
  const TransposeTarget<Acc> target = {static_cast<Acc*>(of.data) + k * of.stride.batch,
                                       of.channels,
                                       p.patch_height,
                                       p.patch_width,
                                       of.stride.channel,
                                       of.stride.row,
                                       of.stride.column};
  clear_rows(target, rows);
  if (map.image < 0 || !overlap(map.reach_y, rows)) return;
  Neighbours listed;
  const PasteNeighbours neighbours = listed.of(p, k);
  if (p.grad_alpha != nullptr) {
    IncomingAlpha<T, mode> values = {p, neighbours, k};
    return add_box<mode>(map, target, rows, values);
  }
  IncomingPixels<T, mode> values = {p, neighbours, k, incoming_gradient<T>(p, map.image, 0)};
  add_box<mode>(map, target, rows, values);
}

template <class T>
void patch_rows(const RoiPasteParams& p, int64_t k, Span rows) {
  switch (p.mode) {
    case Interpolation::kNearest: return patch_rows<T, Interpolation::kNearest>(p, k, rows);
    case Interpolation::kBilinear: return patch_rows<T, Interpolation::kBilinear>(p, k, rows);
    default: return patch_rows<T, Interpolation::kBicubic>(p, k, rows);
  }
}

void roi_paste_backward_kernel(const RoiPasteParams& p, Workspace& workspace) {
  constexpr int64_t kCost = 4;  // of an element, to that of copying one
  const auto rows = [&](int64_t begin, int64_t end) {
    for_each_sample(begin, end, p.patch_height, [&](int64_t k, int64_t first, int64_t last) {
      with_floating_type(p.dtype, [&](auto* element) {
        patch_rows<std::remove_pointer_t<decltype(element)>>(p, k, {first, last});
      });
    });
  };
  parallel_for(workspace, p.boxes.count * p.patch_height,
               grain_of(kCost * p.channels * p.patch_width), rows);
}

const bool registered = roi_paste_backward_stub.set(kIsaSlot, roi_paste_backward_kernel);

}  // namespace
}  // namespace visops
