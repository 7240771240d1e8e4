// First, scalar form of the augmentation on the CPU.
#include "core/augment_pixel.h"
#include "cpu/affine_rows.h"

namespace visops {
namespace {

constexpr int kGroup = 4;

template <class T, Interpolation mode>
void augment_row(const AugmentParams& p, const AugmentSample& s,
                 const ColorPlan<typename Accumulate<T>::type>& plan, int64_t sample, int64_t y) {
  using Acc = typename Accumulate<T>::type;
  for (int64_t x0 = 0; x0 < p.output_width; x0 += kSegment) {
    const auto segment = augment_segment<Acc>(s.map, x0, y);
    const auto axes = segment_axes(s, segment);
    const int64_t end = x0 + kSegment < p.output_width ? x0 + kSegment : p.output_width;
    for (int64_t x = x0; x < end; ++x) {
      const LanePoint<Acc> point = segment.direct ? lane_point_direct<Acc>(s.map, x, y)
                                                  : lane_point(segment, static_cast<int>(x - x0));
      const bool erased = is_erased(p, sample, x, y);
      for (int64_t c0 = 0; c0 < p.channels; c0 += kGroup) {
        const int64_t count = p.channels - c0 < kGroup ? p.channels - c0 : kGroup;
        Acc value[kGroup];
        sample_augmented<T, mode>(p, s, axes, point, c0, count, value);
        if (p.color_steps > 0) color_pixel(p, plan, value);
        for (int64_t c = 0; c < count; ++c) {
          Acc v = finish_value(p, c0 + c, value[c]);
          if (erased) v = static_cast<Acc>(p.erase_value[value_index(p, c0 + c)]);
          store_output(p.output_dtype, p.output,
                       sample * p.output_stride.batch + (c0 + c) * p.output_stride.channel +
                           y * p.output_stride.row + x * p.output_stride.column,
                       v);
        }
      }
    }
  }
}

template <class T>
void augment_rows(const AugmentParams& p, int64_t sample, int64_t first, int64_t last) {
  using Acc = typename Accumulate<T>::type;
  const AugmentSample s =
      augment_sample(p, sample, p.list != nullptr ? p.list[sample] : augment_image(p, sample));
  ColorPlan<Acc> plan;
  load_color_plan(p, sample, &plan);
  for (int64_t y = first; y < last; ++y) {
    switch (s.mode) {
      case Interpolation::kNearest:
        augment_row<T, Interpolation::kNearest>(p, s, plan, sample, y);
        break;
      case Interpolation::kBilinear:
        augment_row<T, Interpolation::kBilinear>(p, s, plan, sample, y);
        break;
      case Interpolation::kBicubic:
        augment_row<T, Interpolation::kBicubic>(p, s, plan, sample, y);
        break;
    }
  }
}

void augment_kernel(const AugmentParams& p, int64_t begin, int64_t end) {
  for_each_sample(begin, end, p.output_height, [&](int64_t sample, int64_t first, int64_t last) {
    switch (p.dtype) {
      case DType::kUInt8: return augment_rows<uint8_t>(p, sample, first, last);
      case DType::kFloat16: return augment_rows<Half>(p, sample, first, last);
      case DType::kBFloat16: return augment_rows<BFloat16>(p, sample, first, last);
      case DType::kFloat32: return augment_rows<float>(p, sample, first, last);
      case DType::kFloat64: return augment_rows<double>(p, sample, first, last);
      default: return;  // check_augment() lets no other through
    }
  });
}

const bool registered = augment_stub.set(kIsaSlot, augment_kernel);

}  // namespace
}  // namespace visops
