// NOTE [ Affine forward on the CPU ]
// Work is cut by output row; a task walks its rows, a row its segments (NOTE [ Rows and spans ]).
// Inside the image there are four ways to sample, chosen once per sample by layout:
//   pairs    8 bytes at a pixel hold its tap and the next one along x (all channels of up to
//            4 x uint8; one plane of 16-bit elements or float32): one load per pixel and row of
//            taps, then vectors over pixels (cpu/simd/floats.h)
//   quads    float32 with interleaved channels: vectors over channels, one pixel at a time
//   copies   nearest, and maps whose coordinates are all integers: under constant padding by
//            NOTE [ Copied rows ] (cpu/warp/copied_rows.h)
//   pixels   everything else: core/warp/affine.h
// All four interpolate vertically first, in the order of NOTE [ One pixel ] (core/images/pixel.h),
// so they agree to the bit. Integers are rounded half to even and saturate when stored. Assumes
// what check_affine() and check_matrices() establish: finite matrices, sizes below 2^31, fill
// within the dtype's range, a non-empty image unless padding is constant.
#include <type_traits>

#include "core/warp/affine.h"
#include "cpu/items.h"
#include "cpu/simd/floats.h"
#include "cpu/warp/affine_rows.h"
#include "cpu/warp/copied_rows.h"
#include "cpu/warp/pairs.h"

namespace visops {
namespace {

// Samples float32 images with interleaved channels: vectors over channels.

template <Interpolation mode>
struct QuadSampler {
  using Coord = float;
  static constexpr bool has_inside = true;
  static constexpr int kTaps = tap_count(mode);

  const AffineParams& p;
  const AffineMap& map;
  const char* image_end;
  int32_t row_bytes, column_bytes;

  static bool accepts(const AffineParams& p, const AffineMap& map) {
    return p.channels >= 3 && p.image_stride.channel == 1 && p.output_stride.channel == 1 &&
           p.output_stride.column == p.channels &&
           fits_taps(map.m, p.image_stride.row * int64_t{sizeof(float)},
                     p.image_stride.column * int64_t{sizeof(float)});
  }

  QuadSampler(const AffineParams& params, const AffineMap& m)
      : p(params),
        map(m),
        image_end(
            end_of(p.image, p.image_stride, p.batch, p.channels, p.height, p.width, sizeof(float))),
        row_bytes(static_cast<int32_t>(p.image_stride.row * int64_t{sizeof(float)})),
        column_bytes(static_cast<int32_t>(p.image_stride.column * int64_t{sizeof(float)})) {}

  void border(int64_t sample, int64_t y, const SegmentOrigin<float>& origin, int64_t x0,
              int64_t begin, int64_t end) const {
    PixelSampler<float, mode>(p, map).border(sample, y, origin, x0, begin, end);
  }

  bool inside(int64_t sample, int64_t y, const SegmentOrigin<float>& origin,
              const SegmentTaps& taps, int64_t, int64_t begin, int64_t end) const {
    const int count = static_cast<int>(end - begin);
    const int64_t first = sample * p.image_stride.batch * int64_t{sizeof(float)} +
                          (origin.y + first_tap(mode)) * row_bytes +
                          (origin.x + first_tap(mode)) * column_bytes;
    const int64_t last_row = row_bytes > 0 ? (kTaps - 1) * int64_t{row_bytes} : 0;
    const int64_t last_column = column_bytes > 0 ? (kTaps - 1) * int64_t{column_bytes} : 0;
    const int64_t channels = p.channels > 4 ? p.channels : 4;  // a quad reads four
    const int64_t last =
        first + taps.highest + last_row + last_column + channels * int64_t{sizeof(float)};
    const char* image = static_cast<const char*>(p.image);
    if (last > image_end - image) return false;

    float* out = static_cast<float*>(p.output) + sample * p.output_stride.batch +
                 y * p.output_stride.row + begin * p.output_stride.column;
    for (int i = 0; i < count; ++i) {
      const char* pixel_taps = image + first + taps.offset[i];
      float* pixel = out + i * p.channels;
      if (p.channels == 3) {
        // Stores four floats: the next pixel overwrites the fourth.
        const Quad value = blend<Quad>(pixel_taps, 0, taps.wx[i], taps.wy[i]);
        if (i + 1 < count) {
          value.store(pixel);
        } else {
          float rest[4];
          value.store(rest);
          memcpy(pixel, rest, 3 * sizeof(float));
        }
      } else {
        int64_t c = 0;
        for (; c + Floats::kWidth <= p.channels; c += Floats::kWidth) {
          blend<Floats>(pixel_taps, c, taps.wx[i], taps.wy[i]).store(pixel + c);
        }
        for (; c < p.channels; c += 4) {
          if (c > p.channels - 4) c = p.channels - 4;  // the last quad overlaps the previous one
          blend<Quad>(pixel_taps, c, taps.wx[i], taps.wy[i]).store(pixel + c);
        }
      }
    }
    return true;
  }

  template <class V>
  VISOPS_ALWAYS_INLINE V tap(const char* taps, int64_t channel, int row, int column) const {
    return V::load(reinterpret_cast<const float*>(taps + int64_t{row} * row_bytes +
                                                  int64_t{column} * column_bytes) +
                   channel);
  }

  template <class V>
  VISOPS_ALWAYS_INLINE V blend(const char* taps, int64_t channel, float x, float y) const {
    if constexpr (mode == Interpolation::kBilinear) {
      const V wx(x), wy(y);
      const V a = tap<V>(taps, channel, 0, 0), b = tap<V>(taps, channel, 0, 1);
      const V c = tap<V>(taps, channel, 1, 0), e = tap<V>(taps, channel, 1, 1);
      const V t0 = a + wy * (c - a), t1 = b + wy * (e - b);
      return t0 + wx * (t1 - t0);
    } else {
      float wx[4], wy[4];
      cubic_weights(x, wx);
      cubic_weights(y, wy);
      V v[4];
      for (int j = 0; j < 4; ++j) {
        v[j] = V(wy[0]) * tap<V>(taps, channel, 0, j);
        for (int i = 1; i < 4; ++i) v[j] = v[j] + V(wy[i]) * tap<V>(taps, channel, i, j);
      }
      return ((V(wx[0]) * v[0] + V(wx[1]) * v[1]) + V(wx[2]) * v[2]) + V(wx[3]) * v[3];
    }
  }
};

// The nearest warp: moves elements by size, whatever they mean.

inline PixelLayout pixel_layout(const AffineParams& p, const AffineMap& map) {
  const int64_t size = element_size(p.dtype);
  const Strides &in = p.image_stride, &out = p.output_stride;
  return {p.channels,
          size,
          in.channel * size,
          in.column * size,
          out.channel * size,
          out.column * size,
          run_of(map.integral, map.m),
          end_of(p.image, in, p.batch, p.channels, p.height, p.width, size)};
}

inline CopiedSample copied_sample(const AffineParams& p, const AffineMap& map, int64_t sample) {
  const int64_t size = element_size(p.dtype);
  return {pixel_layout(p, map),
          static_cast<const char*>(p.image) + sample * p.image_stride.batch * size,
          static_cast<char*>(p.output) + sample * p.output_stride.batch * size,
          p.image_stride.row * size,
          p.output_stride.row * size,
          map.m,
          {0, p.width - 1},
          {0, p.height - 1},
          p.dtype,
          p.fill,
          p.fill_count};
}

// What copy_sample() of cpu/warp/copied_rows.h does not take.
template <class CoordType>
struct CopySampler {
  using Coord = CoordType;
  static constexpr auto kMode = Interpolation::kNearest;

  const AffineParams& p;
  const AffineMap& map;
  PixelLayout layout;
  int64_t size;  // of an element, in bytes
  bool has_inside;
  int32_t row_bytes, column_bytes;  // where has_inside

  CopySampler(const AffineParams& params, const AffineMap& m)
      : p(params),
        map(m),
        layout(pixel_layout(params, m)),
        size(layout.element),
        has_inside(sizeof(Coord) == sizeof(float) &&
                   fits_taps(map.m, p.image_stride.row * size, layout.column_bytes)),
        row_bytes(static_cast<int32_t>(p.image_stride.row * size)),
        column_bytes(static_cast<int32_t>(layout.column_bytes)) {}

  const char* image_of(int64_t sample) const {
    return static_cast<const char*>(p.image) + sample * p.image_stride.batch * size;
  }
  char* output_of(int64_t sample, int64_t y, int64_t x) const {
    return static_cast<char*>(p.output) +
           (sample * p.output_stride.batch + y * p.output_stride.row + x * p.output_stride.column) *
               size;
  }

  bool inside(int64_t, int64_t, const SegmentOrigin<double>&, const SegmentTaps&, int64_t, int64_t,
              int64_t) const {
    return false;  // float64 coordinates have no SegmentTaps
  }

  bool inside(int64_t sample, int64_t y, const SegmentOrigin<float>& origin,
              const SegmentTaps& taps, int64_t, int64_t begin, int64_t end) const {
    const char* image = image_of(sample) + origin.y * row_bytes + origin.x * column_bytes;
    copy_run(layout, image, taps.offset, static_cast<int>(end - begin),
             output_of(sample, y, begin));
    return true;
  }

  void border(int64_t sample, int64_t y, const SegmentOrigin<Coord>& origin, int64_t x0,
              int64_t begin, int64_t end) const {
    const char* image = image_of(sample);
    // Only float64 images have float64 coordinates; a size that is known is one move.
    const int64_t bytes = sizeof(Coord) == sizeof(double) ? int64_t{8} : size;
    for (int64_t x = begin; x < end; ++x) {
      const auto taps = pixel_taps<kMode>(p, map, origin, static_cast<int>(x - x0));
      char* out = output_of(sample, y, x);
      const bool outside = taps.outside();
      const char* from =
          image +
          (taps.y.index[0] * p.image_stride.row + taps.x.index[0] * p.image_stride.column) * bytes;
      for (int64_t c = 0; c < p.channels; ++c) {
        char* to = out + c * p.output_stride.channel * bytes;
        if (outside) {
          const uint64_t bits = fill_bits(p.dtype, affine_fill(p, c));
          memcpy(to, &bits, static_cast<size_t>(bytes));
        } else {
          memcpy(to, from + c * p.image_stride.channel * bytes, static_cast<size_t>(bytes));
        }
      }
    }
  }
};

// One output row of one sample.
struct Row {
  const AffineParams& p;
  const AffineMap& map;
  Interpolation mode;
  int64_t sample, y;
};

void fill_pixels(const Row& row, int64_t begin, int64_t end) {
  if (begin >= end) return;
  const AffineParams& p = row.p;
  const int64_t size = element_size(p.dtype);
  char* out = static_cast<char*>(p.output) +
              (row.sample * p.output_stride.batch + row.y * p.output_stride.row) * size;
  for (int64_t c = 0; c < p.channels; ++c) {
    const uint64_t bits = fill_bits(p.dtype, affine_fill(p, c));
    fill_elements(out + c * p.output_stride.channel * size, p.output_stride.column, begin, end,
                  size, bits);
  }
}

// How one sample's pixels are sampled, for its dtype, layout and interpolation. Calls go through
// pointers, so that the walk over rows is compiled once; a segment is long enough to hide them.
template <class Coord>
struct SegmentSampler {
  const void* self;
  // Columns that surely lie inside the image; false where it would read past the image's end.
  bool (*inside)(const void* self, int64_t sample, int64_t y, const SegmentOrigin<Coord>& origin,
                 const SegmentTaps& taps, int64_t x0, int64_t begin, int64_t end);
  // Any columns, one by one.
  void (*border)(const void* self, int64_t sample, int64_t y, const SegmentOrigin<Coord>& origin,
                 int64_t x0, int64_t begin, int64_t end);
  bool has_inside;                  // whether inside() can ever return true
  int32_t row_bytes, column_bytes;  // from a tap to its neighbours, where has_inside
};

template <class Sampler, class Coord = typename Sampler::Coord>
SegmentSampler<Coord> segment_sampler(const Sampler& sampler) {
  SegmentSampler<Coord> calls;
  calls.self = &sampler;
  calls.inside = [](const void* self, int64_t sample, int64_t y, const SegmentOrigin<Coord>& origin,
                    const SegmentTaps& taps, int64_t x0, int64_t begin, int64_t end) {
    return static_cast<const Sampler*>(self)->inside(sample, y, origin, taps, x0, begin, end);
  };
  calls.border = [](const void* self, int64_t sample, int64_t y, const SegmentOrigin<Coord>& origin,
                    int64_t x0, int64_t begin, int64_t end) {
    if (begin < end) {
      static_cast<const Sampler*>(self)->border(sample, y, origin, x0, begin, end);
    }
  };
  calls.has_inside = sampler.has_inside;
  calls.row_bytes = sampler.row_bytes;
  calls.column_bytes = sampler.column_bytes;
  return calls;
}

template <class Coord>
void warp_segment(const SegmentSampler<Coord>& sampler, const Row& row, Span segment, Span inside,
                  const SegmentOrigin<Coord>& origin, const SegmentTaps& taps, int64_t x0) {
  if (segment.begin == segment.end) return;
  if (inside.begin == inside.end || !sampler.inside(sampler.self, row.sample, row.y, origin, taps,
                                                    x0, inside.begin, inside.end)) {
    sampler.border(sampler.self, row.sample, row.y, origin, x0, segment.begin, segment.end);
    return;
  }
  sampler.border(sampler.self, row.sample, row.y, origin, x0, segment.begin, inside.begin);
  sampler.border(sampler.self, row.sample, row.y, origin, x0, inside.end, segment.end);
}

// Rows go in blocks: all rows of a block finish a segment before the next one begins. Under
// rotation a row crosses many rows of the image, and cache lines that one row fetches serve the
// others.
constexpr int64_t kBlockRows = 8;

template <class Coord>
void warp_strip(const SegmentSampler<Coord>& sampler, const AffineParams& p, const AffineMap& map,
                Interpolation mode, int64_t sample, int64_t begin, int64_t end, Span strip) {
  ReadAhead ahead = read_ahead(p, map, sample, strip, {begin, end});
  for (int64_t y0 = begin; y0 < end; y0 += kBlockRows) {
    const int64_t rows = end - y0 < kBlockRows ? end - y0 : kBlockRows;
    ahead.at(y0);
    RowSpans spans[kBlockRows];
    Span all = {p.output_width, 0};
    for (int64_t i = 0; i < rows; ++i) {
      const Row row = {p, map, mode, sample, y0 + i};
      spans[i] = row_spans(p, map, mode, row.y);
      if (!sampler.has_inside) spans[i].inside = {0, 0};
      const Span touching = intersect(spans[i].touching, strip);
      spans[i].touching = touching;
      if (touching.begin == touching.end) {
        fill_pixels(row, strip.begin, strip.end);
        continue;
      }
      fill_pixels(row, strip.begin, touching.begin);
      fill_pixels(row, touching.end, strip.end);
      all.begin = all.begin < touching.begin ? all.begin : touching.begin;
      all.end = all.end > touching.end ? all.end : touching.end;
    }
    for (int64_t x0 = all.begin & -kSegment; x0 < all.end; x0 += kSegment) {
      // Compute all rows' coordinates ahead of their use: a segment begins with a long chain of
      // float64 operations, and offsets are loaded one by one from where vectors stored them.
      SegmentOrigin<Coord> origins[kBlockRows];
      Span segments[kBlockRows], insides[kBlockRows];
      SegmentTaps taps[kBlockRows];
      for (int64_t i = 0; i < rows; ++i) {
        origins[i] = segment_origin<Coord>(map.m, x0, y0 + i);
        segments[i] = intersect(spans[i].touching, {x0, x0 + kSegment});
        insides[i] = intersect(segments[i], spans[i].inside);
      }
      if constexpr (std::is_same<Coord, float>::value) {
        for (int64_t i = 0; i < rows && sampler.has_inside; ++i) {
          if (insides[i].begin == insides[i].end) continue;
          fill_taps(mode, map, origins[i], static_cast<int>(insides[i].begin - x0),
                    static_cast<int>(insides[i].end - insides[i].begin), sampler.row_bytes,
                    sampler.column_bytes, taps[i]);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        warp_segment(sampler, {p, map, mode, sample, y0 + i}, segments[i], insides[i], origins[i],
                     taps[i], x0);
      }
    }
  }
}

template <class Sampler>
void warp_rows(const AffineParams& p, const AffineMap& map, Interpolation mode, int64_t sample,
               int64_t begin, int64_t end) {
  const Sampler how(p, map);
  const auto sampler = segment_sampler(how);
  const Span all = {0, p.output_width};
  for (int64_t x = 0; x < p.output_width; x += kStripColumns) {
    warp_strip(sampler, p, map, mode, sample, begin, end, intersect(all, {x, x + kStripColumns}));
  }
}

template <class T, int Channels, Interpolation mode>
bool warp_pairs_if(const AffineParams& p, const AffineMap& map, int64_t sample, int64_t begin,
                   int64_t end) {
  if (!PairSampler<T, Channels, mode>::accepts(p, map)) return false;
  warp_rows<PairSampler<T, Channels, mode>>(p, map, mode, sample, begin, end);
  return true;
}

template <class T, Interpolation mode>
void warp_interpolated(const AffineParams& p, const AffineMap& map, int64_t sample, int64_t begin,
                       int64_t end) {
  if constexpr (sizeof(T) == 1) {
    if (warp_pairs_if<T, 3, mode>(p, map, sample, begin, end)) return;
    if (warp_pairs_if<T, 4, mode>(p, map, sample, begin, end)) return;
  }
  if constexpr (sizeof(T) <= 4) {
    if (warp_pairs_if<T, 1, mode>(p, map, sample, begin, end)) return;
  }
  if constexpr (sizeof(T) == 4) {
    if (QuadSampler<mode>::accepts(p, map)) {
      warp_rows<QuadSampler<mode>>(p, map, mode, sample, begin, end);
      return;
    }
  }
  warp_rows<PixelSampler<T, mode>>(p, map, mode, sample, begin, end);
}

template <class T>
void warp_sample(const AffineParams& p, const AffineMap& map, int64_t sample, int64_t begin,
                 int64_t end) {
  if (p.mode == Interpolation::kBilinear) {
    warp_interpolated<T, Interpolation::kBilinear>(p, map, sample, begin, end);
  } else {
    warp_interpolated<T, Interpolation::kBicubic>(p, map, sample, begin, end);
  }
}

// float64 images have float64 coordinates in every mode.
void copy_sample(const AffineParams& p, const AffineMap& map, int64_t sample, int64_t begin,
                 int64_t end) {
  constexpr auto mode = Interpolation::kNearest;
  if (p.dtype == DType::kFloat64) {
    return warp_rows<CopySampler<double>>(p, map, mode, sample, begin, end);
  }
  const CopiedSample copied = copied_sample(p, map, sample);
  if (p.padding != Padding::kConstant || !fits_copied_rows(copied)) {
    return warp_rows<CopySampler<float>>(p, map, mode, sample, begin, end);
  }
  copy_sample(copied, {begin, end}, p.output_height, p.output_width);
}

void affine_range(const AffineParams& p, int64_t begin, int64_t end) {
  const bool empty_image = p.height == 0 || p.width == 0;
  for_each_sample(begin, end, p.output_height, [&](int64_t sample, int64_t first, int64_t last) {
    const AffineMap map = affine_map(p, sample);
    if (!map.valid || empty_image) {
      for (int64_t y = first; y < last; ++y) {
        fill_pixels({p, map, p.mode, sample, y}, 0, p.output_width);
      }
      return;
    }
    if (effective_mode(p, map) == Interpolation::kNearest) {
      copy_sample(p, map, sample, first, last);
      return;
    }
    switch (p.dtype) {
      case DType::kUInt8: return warp_sample<uint8_t>(p, map, sample, first, last);
      case DType::kInt16: return warp_sample<int16_t>(p, map, sample, first, last);
      case DType::kUInt16: return warp_sample<uint16_t>(p, map, sample, first, last);
      case DType::kFloat16: return warp_sample<Half>(p, map, sample, first, last);
      case DType::kBFloat16: return warp_sample<BFloat16>(p, map, sample, first, last);
      case DType::kFloat32: return warp_sample<float>(p, map, sample, first, last);
      case DType::kFloat64: return warp_sample<double>(p, map, sample, first, last);
      default: return;  // check_affine() lets other dtypes through only with nearest
    }
  });
}

void affine_kernel(const AffineParams& p, Workspace& workspace) {
  for_items(workspace, p, p.batch * p.output_height, p.channels * p.output_width, affine_range);
}

const bool registered = affine_stub.set(kIsaSlot, affine_kernel);

}  // namespace
}  // namespace visops
