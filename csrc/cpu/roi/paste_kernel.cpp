// NOTE [ Pasting on the CPU ]
// Work is split by row of the images. A task copies its rows, kPasteRows at a time. If boxes cover
// some of them, it goes through tiles of kTileColumns columns: it loads a tile, blends all boxes
// into it by index, each a row at a time (NOTE [ Sampled rows ] in cpu/roi/crops_rows.h), and
// stores it, rounded once. Tiles that no box covers stay copies. Assumes what check_roi_paste()
// establishes; maps may belong to boxes that are not valid.
#include "core/roi/paste.h"
#include "cpu/items.h"
#include "cpu/roi/crops_rows.h"

namespace visops {
namespace {

constexpr int64_t kPasteRows = 16;
constexpr int kTileChannels = 4;
constexpr int kTileColumns = 128;  // a tile fits the first-level cache
constexpr int64_t kMostListed = 1024;

// The boxes that cover some of an image's rows, by index.
struct RowBoxes {
  int32_t listed[kMostListed];
  int64_t count;
  bool is_list;  // else the list was too short, and all boxes count

  void set(const RoiPasteParams& p, int64_t image, Span rows) {
    count = 0;
    is_list = true;
    for (int64_t k = 0; k < p.boxes.count; ++k) {
      if (p.maps[k].image != image || !overlap(p.maps[k].rows, rows)) continue;
      if (count == kMostListed) {
        is_list = false;
        count = p.boxes.count;
        return;
      }
      listed[count++] = static_cast<int32_t>(k);
    }
  }
  int64_t at(int64_t i) const { return is_list ? listed[i] : i; }
};

bool is_in_tile(const CropMap& map, int64_t image, Span rows, Span columns) {
  return map.image == image && overlap(map.rows, rows) && overlap(map.columns, columns);
}

Span unite(Span a, Span b) {
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

// Shrinks the tile to the smallest one with all of the boxes' pixels; to no rows if there are none.
void shrink_to_boxes(const RoiPasteParams& p, int64_t image, const RowBoxes& boxes, Span* rows,
                     Span* columns) {
  Span covered_rows = {rows->end, rows->begin}, covered_columns = {columns->end, columns->begin};
  for (int64_t i = 0; i < boxes.count; ++i) {
    const CropMap& map = p.maps[boxes.at(i)];
    if (!is_in_tile(map, image, *rows, *columns)) continue;
    covered_rows = unite(covered_rows, intersect(*rows, map.rows));
    covered_columns = unite(covered_columns, intersect(*columns, map.columns));
  }
  *rows = covered_rows;
  *columns = covered_columns;
}

bool holds(Span outer, Span inner) { return outer.begin <= inner.begin && inner.end <= outer.end; }

// Which of `boxes` is the last to replace a tile as a whole: what lies below need not be loaded or
// pasted. -1: none.
int64_t last_cover(const RoiPasteParams& p, int64_t image, const RowBoxes& boxes, Span rows,
                   Span columns) {
  if (p.blend != PasteBlend::kReplace) return -1;
  for (int64_t i = boxes.count - 1; i >= 0; --i) {
    const CropMap& map = p.maps[boxes.at(i)];
    if (map.image == image && holds(map.rows, rows) && holds(map.columns, columns)) return i;
  }
  return -1;
}

template <class T>
void copy_image_rows(const RoiPasteParams& p, int64_t image, Span rows) {
  const Strides& from = p.image_stride;
  const Strides& to = p.output_stride;
  const T* source = static_cast<const T*>(p.images) + image * from.batch;
  T* output = static_cast<T*>(p.output) + image * to.batch;
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const T* row = source + y * from.row;
    T* out = output + y * to.row;
    if (channels_together(p.channels, from, to) > 1) {
      memcpy(out, row, static_cast<size_t>(p.width * p.channels) * sizeof(T));
      continue;
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      const T* plane = row + c * from.channel;
      T* to_plane = out + c * to.channel;
      if (from.column == 1 && to.column == 1) {
        memcpy(to_plane, plane, static_cast<size_t>(p.width) * sizeof(T));
      } else {
        for (int64_t x = 0; x < p.width; ++x) to_plane[x * to.column] = plane[x * from.column];
      }
    }
  }
}

// Some channels of a part of an image's rows, in the type that is computed in.
template <class Acc>
struct Tile {
  Span rows, columns;
  int64_t first, channels;                               // of the image
  Acc values[kPasteRows][kTileChannels * kTileColumns];  // [row][plane][column][element]

  Acc* at(int64_t y, int64_t plane, int64_t x, int elements) {
    return values[y - rows.begin] +
           (plane * kTileColumns + (x - columns.begin)) * static_cast<int64_t>(elements);
  }
};

// The weights of a row of a box's pixels, unless it replaces them.
template <Interpolation mode, class Acc>
class RowWeights {
 public:
  explicit RowWeights(const RoiPasteParams& p) : p_(p) {}

  void set_columns(const CropMap& map, Span columns) {
    count_ = columns.end - columns.begin;
    if (p_.blend == PasteBlend::kAlpha) {
      alpha_sampler_.set_columns(map.x, columns, Padding::kReplicate, p_.patch_width, 1);
    } else if (p_.blend == PasteBlend::kFeather) {
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        across_[x - columns.begin] = feather_weight<Acc>(feather_width(p_, map), map.x1, map.x2, x);
      }
    }
  }

  // Moves on to row y of box k, whose taps on the patch are `taps`.
  void set_row(int64_t k, int64_t y, const AxisTaps<mode, Acc>& taps) {
    const CropMap& map = p_.maps[k];
    if (p_.blend == PasteBlend::kAlpha) {
      const Strides stride = alpha_strides(p_);
      const double fill = 0.0;
      const SampledPlane<Acc> plane = {static_cast<const Acc*>(p_.alpha) + k * stride.batch,
                                       stride.row,
                                       stride.column,
                                       1,
                                       &fill,
                                       0};
      return alpha_sampler_.sample(plane, taps, weights_);
    }
    const Acc down = feather_weight<Acc>(feather_width(p_, map), map.y1, map.y2, y);
    for (int64_t i = 0; i < count_; ++i) weights_[i] = down < across_[i] ? down : across_[i];
  }

  const Acc* data() const { return weights_; }

 private:
  const RoiPasteParams& p_;
  int64_t count_ = 0;
  RowSampler<Acc, mode> alpha_sampler_;
  alignas(64) Acc across_[kTileColumns];
  alignas(64) Acc weights_[kTileColumns];
};

template <int Elements, class Acc>
VISOPS_ALWAYS_INLINE void blend_pixels(const Acc* VISOPS_RESTRICT weights,
                                       const Acc* VISOPS_RESTRICT sample, int64_t count,
                                       int channels, Acc* VISOPS_RESTRICT out) {
  const int elements = Elements > 0 ? Elements : channels;
  for (int64_t i = 0; i < count; ++i) {
    for (int e = 0; e < elements; ++e) {
      const int64_t at = i * elements + e;
      out[at] = blended(weights[i], sample[at], out[at]);
    }
  }
}

// `count` pixels of `elements` channels; weights[pixel].
template <class Acc>
void blend_row(const Acc* weights, const Acc* sample, int64_t count, int elements, Acc* out) {
  switch (elements) {
    case 1: return blend_pixels<1>(weights, sample, count, elements, out);
    case 3: return blend_pixels<3>(weights, sample, count, elements, out);
    default: return blend_pixels<0>(weights, sample, count, elements, out);
  }
}

// Pastes the rows of a box that lie in a tile.
template <class T, Interpolation mode>
class TilePaster {
 public:
  using Acc = typename Accumulate<T>::type;

  TilePaster(const RoiPasteParams& p, int elements) : p_(p), elements_(elements), weights_(p) {}

  void paste(int64_t k, Tile<Acc>& tile) {
    const CropMap& map = p_.maps[k];
    const Span columns = intersect(map.columns, tile.columns);
    const Span rows = intersect(map.rows, tile.rows);
    if (columns.begin >= columns.end || rows.begin >= rows.end) return;
    sampler_.set_columns(map.x, columns, Padding::kReplicate, p_.patch_width, elements_);
    weights_.set_columns(map, columns);
    const T* patch = static_cast<const T*>(p_.patches) + k * p_.patch_stride.batch;
    const double fill = 0.0;
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      const auto taps = grid_taps<mode, Acc>(map.y, y, Padding::kReplicate, p_.patch_height);
      if (p_.blend != PasteBlend::kReplace) weights_.set_row(k, y, taps);
      for (int64_t c = 0; c < tile.channels; c += elements_) {
        const SampledPlane<T> plane = {patch + (tile.first + c) * p_.patch_stride.channel,
                                       p_.patch_stride.row,
                                       p_.patch_stride.column,
                                       p_.patch_stride.channel,
                                       &fill,
                                       0};
        Acc* out = tile.at(y, elements_ > 1 ? 0 : c, columns.begin, elements_);
        if (p_.blend == PasteBlend::kReplace) {
          sampler_.sample(plane, taps, out);
          continue;
        }
        alignas(64) Acc result[kTileColumns * kTileChannels];
        sampler_.sample(plane, taps, result);
        blend_row(weights_.data(), result, columns.end - columns.begin, elements_, out);
      }
    }
  }

 private:
  const RoiPasteParams& p_;
  int elements_;
  RowSampler<T, mode> sampler_;
  RowWeights<mode, Acc> weights_;
};

template <class T, class Acc>
void load_tile(const RoiPasteParams& p, int64_t image, int elements, Tile<Acc>& tile) {
  const Strides& from = p.image_stride;
  const T* source = static_cast<const T*>(p.images) + image * from.batch;
  for (int64_t y = tile.rows.begin; y < tile.rows.end; ++y) {
    for (int64_t c = 0; c < tile.channels; c += elements) {
      Acc* out = tile.at(y, elements > 1 ? 0 : c, tile.columns.begin, elements);
      const T* row = source + (tile.first + c) * from.channel + y * from.row;
      if (from.column == elements && (elements == 1 || from.channel == 1)) {
        const int64_t count = tile.columns.end - tile.columns.begin;
        load_run(row + tile.columns.begin * elements, count * elements, out);
        continue;
      }
      for (int64_t x = tile.columns.begin; x < tile.columns.end; ++x) {
        for (int e = 0; e < elements; ++e) {
          *out++ = load_element(row + x * from.column + e * from.channel);
        }
      }
    }
  }
}

template <class T, class Acc>
void store_tile(const RoiPasteParams& p, int64_t image, int elements, Tile<Acc>& tile) {
  const Strides& to = p.output_stride;
  T* output = static_cast<T*>(p.output) + image * to.batch;
  for (int64_t y = tile.rows.begin; y < tile.rows.end; ++y) {
    for (int64_t c = 0; c < tile.channels; c += elements) {
      T* out = output + (tile.first + c) * to.channel + y * to.row + tile.columns.begin * to.column;
      store_row(out, to.column, to.channel,
                tile.at(y, elements > 1 ? 0 : c, tile.columns.begin, elements),
                tile.columns.end - tile.columns.begin, elements);
    }
  }
}

template <class T>
void paste_box(const RoiPasteParams& p, int64_t k, TilePaster<T, Interpolation::kNearest>& nearest,
               TilePaster<T, Interpolation::kBilinear>& bilinear,
               TilePaster<T, Interpolation::kBicubic>& bicubic,
               Tile<typename Accumulate<T>::type>& tile) {
  if (p.maps[k].integral || p.mode == Interpolation::kNearest) return nearest.paste(k, tile);
  if (p.mode == Interpolation::kBilinear) return bilinear.paste(k, tile);
  bicubic.paste(k, tile);
}

template <class T>
void paste_rows(const RoiPasteParams& p, int64_t image, Span rows) {
  using Acc = typename Accumulate<T>::type;
  const int together = channels_together(p.channels, p.image_stride, p.output_stride);
  const int elements =
      together > 1 ? channels_together(p.channels, p.patch_stride, p.output_stride) : 1;
  TilePaster<T, Interpolation::kNearest> nearest(p, elements);
  TilePaster<T, Interpolation::kBilinear> bilinear(p, elements);
  TilePaster<T, Interpolation::kBicubic> bicubic(p, elements);
  RowBoxes boxes;
  Tile<Acc> tile;
  for (int64_t y0 = rows.begin; y0 < rows.end; y0 += kPasteRows) {
    const Span band = intersect(rows, {y0, y0 + kPasteRows});
    copy_image_rows<T>(p, image, band);
    boxes.set(p, image, band);
    if (boxes.count == 0) continue;
    for (int64_t x0 = 0; x0 < p.width; x0 += kTileColumns) {
      tile.rows = band;
      tile.columns = intersect({0, p.width}, {x0, x0 + kTileColumns});
      shrink_to_boxes(p, image, boxes, &tile.rows, &tile.columns);
      if (tile.rows.begin >= tile.rows.end) continue;
      const int64_t cover = last_cover(p, image, boxes, tile.rows, tile.columns);
      for (tile.first = 0; tile.first < p.channels; tile.first += kTileChannels) {
        const int64_t left = p.channels - tile.first;
        tile.channels = left < kTileChannels ? left : kTileChannels;
        if (cover < 0) load_tile<T>(p, image, elements, tile);
        for (int64_t i = cover < 0 ? 0 : cover; i < boxes.count; ++i) {
          const int64_t k = boxes.at(i);
          if (!is_in_tile(p.maps[k], image, tile.rows, tile.columns)) continue;
          paste_box<T>(p, k, nearest, bilinear, bicubic, tile);
        }
        store_tile<T>(p, image, elements, tile);
      }
    }
  }
}

void roi_paste_range(const RoiPasteParams& p, int64_t begin, int64_t end) {
  for_each_sample(begin, end, p.height, [&](int64_t image, int64_t first, int64_t last) {
    const Span rows = {first, last};
    switch (p.dtype) {
      case DType::kUInt8: return paste_rows<uint8_t>(p, image, rows);
      case DType::kInt16: return paste_rows<int16_t>(p, image, rows);
      case DType::kUInt16: return paste_rows<uint16_t>(p, image, rows);
      case DType::kFloat16: return paste_rows<Half>(p, image, rows);
      case DType::kBFloat16: return paste_rows<BFloat16>(p, image, rows);
      case DType::kFloat64: return paste_rows<double>(p, image, rows);
      default: return paste_rows<float>(p, image, rows);
    }
  });
}

void roi_paste_kernel(const RoiPasteParams& p, Workspace& workspace) {
  for_items(workspace, p, p.batch * p.height, p.channels * p.width, roi_paste_range);
}

void roi_paste_maps_range(const RoiPasteParams& p, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) p.maps[k] = paste_map(p, k);
}

void roi_paste_maps_kernel(const RoiPasteParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes.count, kMapCost, roi_paste_maps_range);
}

const bool registered = roi_paste_maps_stub.set(kIsaSlot, roi_paste_maps_kernel) &&
                        roi_paste_stub.set(kIsaSlot, roi_paste_kernel);

}  // namespace
}  // namespace visops
