// NOTE [ Crops on the CPU ]
// Work is split by row of a patch. A task makes its rows of a box together, kRowColumns columns at
// a time, so that a column's taps are computed once for all rows (NOTE [ Sampled rows ] in
// cpu/roi/crops_rows.h). Nearest, and boxes whose samples lie on pixel centres, copy elements of
// any dtype by size, in runs where neighbours in the patch are neighbours in the image. Assumes
// what check_roi_crops() establishes; maps may belong to boxes that are not valid.
#include "cpu/copies.h"
#include "cpu/items.h"
#include "cpu/roi/crops_rows.h"

namespace visops {
namespace {

struct CropRows {
  const RoiCropParams& p;
  const CropMap& map;
  int64_t k;
  Span rows;

  Span chunk(int64_t begin) const { return intersect(map.columns, {begin, begin + kRowColumns}); }
};

// Fills columns [begin, end) of row i, all channels.
void fill_patch(const RoiCropParams& p, int64_t k, int64_t i, int64_t begin, int64_t end) {
  if (begin >= end) return;
  const int64_t size = element_size(p.dtype);
  char* out =
      static_cast<char*>(p.patches) + (k * p.patch_stride.batch + i * p.patch_stride.row) * size;
  for (int64_t c = 0; c < p.channels; ++c) {
    fill_elements(out + c * p.patch_stride.channel * size, p.patch_stride.column, begin, end, size,
                  fill_bits(p.dtype, crop_fill(p, c)));
  }
}

template <class T, Interpolation mode>
void sample_rows(const CropRows& of) {
  using Acc = typename Accumulate<T>::type;
  const RoiCropParams& p = of.p;
  const int elements = channels_together(p.channels, p.image_stride, p.patch_stride);
  const T* image = static_cast<const T*>(p.images) + of.map.image * p.image_stride.batch;
  T* patch = static_cast<T*>(p.patches) + of.k * p.patch_stride.batch;
  [[maybe_unused]] const bool is_adjacent =
      p.patch_stride.column == elements && (elements == 1 || p.patch_stride.channel == 1);
  RowSampler<T, mode> sampler;
  for (int64_t x0 = 0; x0 < p.patch_width; x0 += kRowColumns) {
    const Span columns = of.chunk(x0);
    sampler.set_columns(of.map.x, columns, p.padding, p.width, elements);
    const Span touching = {x0 + sampler.touching().begin, x0 + sampler.touching().end};
    for (int64_t i = of.rows.begin; i < of.rows.end; ++i) {
      const auto y = grid_taps<mode, Acc>(of.map.y, i, p.padding, p.height);
      if (y.outside() || touching.begin == touching.end) {
        fill_patch(p, of.k, i, columns.begin, columns.end);
        continue;
      }
      fill_patch(p, of.k, i, columns.begin, touching.begin);
      fill_patch(p, of.k, i, touching.end, columns.end);
      for (int64_t c = 0; c < p.channels; c += elements) {
        const SampledPlane<T> plane = {image + c * p.image_stride.channel,
                                       p.image_stride.row,
                                       p.image_stride.column,
                                       p.image_stride.channel,
                                       p.fill + (p.fill_count == 1 ? 0 : c),
                                       p.fill_count == 1 ? 0 : 1};
        if constexpr (std::is_same<T, Acc>::value) {  // nothing to round: straight to the patch
          if (is_adjacent) {
            sampler.sample(plane, y,
                           patch + c * p.patch_stride.channel + i * p.patch_stride.row +
                               columns.begin * p.patch_stride.column);
            continue;
          }
        }
        alignas(64) Acc result[kRowColumns * 4];
        sampler.sample(plane, y, result);
        T* out = patch + c * p.patch_stride.channel + i * p.patch_stride.row +
                 touching.begin * p.patch_stride.column;
        store_row(out, p.patch_stride.column, p.patch_stride.channel,
                  result + sampler.touching().begin * elements, touching.end - touching.begin,
                  elements);
      }
    }
  }
}

// Where a chunk's columns are copied from; those in `run` are neighbours in the image too.
struct CopyColumns {
  int32_t index[kRowColumns];  // -1: fill
  Span run;
};

void set_columns(const CropRows& of, Span columns, CopyColumns* copy) {
  constexpr auto mode = Interpolation::kNearest;
  const RoiCropParams& p = of.p;
  const int count = static_cast<int>(columns.end - columns.begin);
  copy->run = {0, 0};
  for (int j = 0; j < count; ++j) {
    const auto taps = grid_taps<mode, double>(of.map.x, columns.begin + j, p.padding, p.width);
    copy->index[j] = taps.index[0];
    const int64_t before = copy->run.end;
    if (before == j && before > copy->run.begin && copy->index[j] == copy->index[j - 1] + 1) {
      copy->run.end = j + 1;
    } else if (copy->run.end - copy->run.begin <= 1 && copy->index[j] >= 0) {
      copy->run = {j, j + 1};
    }
  }
}

template <int Bytes>
void copy_columns(const char* row, int64_t step, const int32_t* index, int64_t begin, int64_t end,
                  char* out, int64_t out_step) {
  for (int64_t j = begin; j < end; ++j) {
    if (index[j] >= 0) memcpy(out + j * out_step, row + index[j] * step, Bytes);
  }
}

void copy_columns(const char* row, int64_t step, const int32_t* index, int64_t begin, int64_t end,
                  char* out, int64_t out_step, int64_t bytes) {
  switch (bytes) {
    case 1: return copy_columns<1>(row, step, index, begin, end, out, out_step);
    case 2: return copy_columns<2>(row, step, index, begin, end, out, out_step);
    case 3: return copy_columns<3>(row, step, index, begin, end, out, out_step);
    case 4: return copy_columns<4>(row, step, index, begin, end, out, out_step);
    case 8: return copy_columns<8>(row, step, index, begin, end, out, out_step);
    case 12: return copy_columns<12>(row, step, index, begin, end, out, out_step);
    default: break;
  }
  for (int64_t j = begin; j < end; ++j) {
    if (index[j] < 0) continue;
    memcpy(out + j * out_step, row + index[j] * step, static_cast<size_t>(bytes));
  }
}

void copy_rows(const CropRows& of) {
  constexpr auto mode = Interpolation::kNearest;
  const RoiCropParams& p = of.p;
  const int64_t size = element_size(p.dtype);
  const int elements = channels_together(p.channels, p.image_stride, p.patch_stride);
  const int64_t step = p.image_stride.column * size, out_step = p.patch_stride.column * size;
  const bool is_adjacent = step == elements * size && out_step == step;
  const char* image =
      static_cast<const char*>(p.images) + of.map.image * p.image_stride.batch * size;
  char* patch = static_cast<char*>(p.patches) + of.k * p.patch_stride.batch * size;
  for (int64_t x0 = 0; x0 < p.patch_width; x0 += kRowColumns) {
    const Span columns = of.chunk(x0);
    const int64_t count = columns.end - columns.begin;
    CopyColumns copy;
    set_columns(of, columns, &copy);
    Span run = is_adjacent ? copy.run : Span{0, 0};
    for (int64_t i = of.rows.begin; i < of.rows.end; ++i) {
      const auto y = grid_taps<mode, double>(of.map.y, i, p.padding, p.height);
      if (y.index[0] < 0) {
        fill_patch(p, of.k, i, columns.begin, columns.end);
        continue;
      }
      for (int64_t j = 0; j < count; ++j) {
        if (copy.index[j] < 0) fill_patch(p, of.k, i, x0 + j, x0 + j + 1);
      }
      for (int64_t c = 0; c < p.channels; c += elements) {
        const char* row =
            image + (c * p.image_stride.channel + y.index[0] * p.image_stride.row) * size;
        char* out = patch + (c * p.patch_stride.channel + i * p.patch_stride.row +
                             x0 * p.patch_stride.column) *
                                size;
        const int64_t bytes = elements * size;
        copy_columns(row, step, copy.index, 0, run.begin, out, out_step, bytes);
        if (run.begin < run.end) {
          memcpy(out + run.begin * out_step, row + copy.index[run.begin] * step,
                 static_cast<size_t>((run.end - run.begin) * bytes));
        }
        copy_columns(row, step, copy.index, run.end, count, out, out_step, bytes);
      }
    }
  }
}

template <class T>
void crop_rows(const CropRows& of) {
  if (of.p.mode == Interpolation::kBilinear) {
    sample_rows<T, Interpolation::kBilinear>(of);
  } else {
    sample_rows<T, Interpolation::kBicubic>(of);
  }
}

void roi_crops_range(const RoiCropParams& p, int64_t begin, int64_t end) {
  for_each_sample(begin, end, p.patch_height, [&](int64_t k, int64_t first, int64_t last) {
    const CropMap& map = p.maps[k];
    const CropRows of = {p, map, k, {first, last}};
    if (map.image < 0 || p.height == 0 || p.width == 0) {
      for (int64_t i = first; i < last; ++i) fill_patch(p, k, i, 0, p.patch_width);
      return;
    }
    if (p.mode == Interpolation::kNearest || map.integral) return copy_rows(of);
    switch (p.dtype) {
      case DType::kUInt8: return crop_rows<uint8_t>(of);
      case DType::kInt16: return crop_rows<int16_t>(of);
      case DType::kUInt16: return crop_rows<uint16_t>(of);
      case DType::kFloat16: return crop_rows<Half>(of);
      case DType::kBFloat16: return crop_rows<BFloat16>(of);
      case DType::kFloat32: return crop_rows<float>(of);
      case DType::kFloat64: return crop_rows<double>(of);
      default: return;  // check_roi_crops() lets other integers through with nearest only
    }
  });
}

void roi_crops_kernel(const RoiCropParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes.count * p.patch_height, p.channels * p.patch_width,
            roi_crops_range);
}

void roi_crop_maps_range(const RoiCropParams& p, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) p.maps[k] = crop_map(p, k);
}

void roi_crop_maps_kernel(const RoiCropParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes.count, kMapCost, roi_crop_maps_range);
}

const bool registered = roi_crop_maps_stub.set(kIsaSlot, roi_crop_maps_kernel) &&
                        roi_crops_stub.set(kIsaSlot, roi_crops_kernel);

}  // namespace
}  // namespace visops
