// NOTE [ Affine matrix gradient on the CPU ]
// The incoming gradient times d out / d coordinate is summed over channels in ascending order, then
// over pixels in float64: a tree halves 64 columns to one sum, and a row adds up these groups in
// ascending order; the finish kernel adds rows l, l + 64, ... in lane l and halves again. The trees
// are those of a CUDA block, so results agree to the bit.
// Assumes what check_affine() and check_matrices() establish; gradients are floating.
#include <type_traits>

#include "core/warp/affine.h"
#include "cpu/items.h"
#include "cpu/simd/floats.h"
#include "cpu/warp/affine_rows.h"
#include "cpu/warp/pairs.h"

namespace visops {
namespace {

// Halves 64 lanes to one, as a CUDA block does.
VISOPS_ALWAYS_INLINE double sum_lanes(double (&lane)[kTreeLeaves]) {
  for (int64_t w = kTreeLeaves / 2; w >= 1; w /= 2) {
    for (int64_t i = 0; i < w; ++i) lane[i] += lane[i + w];
  }
  return lane[0];
}

// gx and gy of a segment's pixels: sums over channels of gradient x d out / d coordinate.
template <class Acc>
struct SegmentGradient {
  alignas(64) Acc x[kPaddedSegment];
  alignas(64) Acc y[kPaddedSegment];
};

// How runs of pixels inside the image are processed: bilinear float32 as planes or with interleaved
// channels; everything else one pixel at a time.
enum class Runs { kNone, kPlanes, kQuads };

template <class T>
Runs runs_of(const AffineParams& p, const AffineMap& map) {
  constexpr int64_t size = sizeof(float);
  const bool possible = std::is_same<T, float>::value && p.mode == Interpolation::kBilinear &&
                        fits_taps(map.m, p.image_stride.row * size, p.image_stride.column * size);
  if (!possible) return Runs::kNone;
  if (p.image_stride.column == 1 && p.output_stride.column == 1) return Runs::kPlanes;
  const bool adjacent = p.image_stride.channel == 1 && p.output_stride.channel == 1;
  return adjacent && p.channels >= 3 ? Runs::kQuads : Runs::kNone;
}

template <class T, Interpolation mode>
void differentiate_pixels(const AffineParams& p, const AffineMap& map,
                          const SegmentOrigin<typename Accumulate<T>::type>& origin, const T* image,
                          const T* grad, int64_t x0, int64_t begin, int64_t end,
                          SegmentGradient<typename Accumulate<T>::type>& sums) {
  using Acc = typename Accumulate<T>::type;
  for (int64_t x = begin; x < end; ++x) {
    const auto taps = pixel_taps<mode>(p, map, origin, static_cast<int>(x - x0));
    if (taps.outside()) continue;
    Acc gx = 0, gy = 0;
    for (int64_t c = 0; c < p.channels; ++c) {
      const auto d = differentiate_pixel(image + c * p.image_stride.channel, p.image_stride, taps,
                                         static_cast<Acc>(affine_fill(p, c)));
      const Acc g = load_element(grad + x * p.output_stride.column + c * p.output_stride.channel);
      gx = gx + g * d.x;
      gy = gy + g * d.y;
    }
    sums.x[x - x0] = gx;
    sums.y[x - x0] = gy;
  }
}

// Pixels [begin, end) of a segment, all inside the image.
void differentiate_planes(const AffineParams& p, const AffineMap& map,
                          const SegmentOrigin<float>& origin, const float* image, const float* grad,
                          int64_t x0, int64_t begin, int64_t end, SegmentGradient<float>& sums) {
  constexpr auto mode = Interpolation::kBilinear;
  constexpr int kWidth = Floats::kWidth;
  const int32_t row_bytes = static_cast<int32_t>(p.image_stride.row * int64_t{sizeof(float)});
  SegmentTaps taps;
  const int count = static_cast<int>(end - begin);
  fill_taps(mode, map, origin, static_cast<int>(begin - x0), count, row_bytes, sizeof(float), taps);
  const char* origin_taps =
      reinterpret_cast<const char*>(image + origin.y * p.image_stride.row + origin.x);
  float* out_x = sums.x + (begin - x0);
  float* out_y = sums.y + (begin - x0);
  for (int i = 0; i < count; i += kWidth) {
    const Floats wx = Floats::load(taps.wx + i);
    const FloatPairs wy = spread(Floats::load(taps.wy + i));
    const bool whole = count - i >= kWidth;
    Floats gx(0.0f), gy(0.0f);
    for (int64_t c = 0; c < p.channels; ++c) {
      const char* plane = origin_taps + c * p.image_stride.channel * int64_t{sizeof(float)};
      PixelPairs rows[2];
      load_pairs({plane, plane + row_bytes}, taps.offset + i, rows);
      const FloatPairs top = channel_pairs<float, 1, 0>(rows[0]);
      const FloatPairs bottom = channel_pairs<float, 1, 0>(rows[1]);
      const FloatPairs slope = bottom - top;
      const FloatPairs t = top + wy * slope;
      const Floats left = first_of_pairs(slope), right = second_of_pairs(slope);
      const float* from = grad + begin + i + c * p.output_stride.channel;
      float rest[kWidth] = {};
      if (!whole) memcpy(rest, from, sizeof(float) * static_cast<size_t>(count - i));
      const Floats g = Floats::load(whole ? from : rest);
      gx = gx + g * (second_of_pairs(t) - first_of_pairs(t));
      gy = gy + g * (left + wx * (right - left));
    }
    if (whole) {
      gx.store(out_x + i);
      gy.store(out_y + i);
    } else {
      float rest[kWidth];
      gx.store(rest);
      memcpy(out_x + i, rest, sizeof(float) * static_cast<size_t>(count - i));
      gy.store(rest);
      memcpy(out_y + i, rest, sizeof(float) * static_cast<size_t>(count - i));
    }
  }
}

// differentiate_planes() for interleaved channels; false if it would read past the end of the image
// or of the gradient.
bool differentiate_quads(const AffineParams& p, const AffineMap& map,
                         const SegmentOrigin<float>& origin, const float* image, const float* grad,
                         int64_t x0, int64_t begin, int64_t end, SegmentGradient<float>& sums) {
  constexpr int64_t size = sizeof(float);
  const Strides& stride = p.image_stride;
  const auto row_bytes = static_cast<int32_t>(stride.row * size);
  const auto column_bytes = static_cast<int32_t>(stride.column * size);
  SegmentTaps taps;
  const int count = static_cast<int>(end - begin);
  fill_taps(Interpolation::kBilinear, map, origin, static_cast<int>(begin - x0), count, row_bytes,
            column_bytes, taps);
  const float* first = image + origin.y * stride.row + origin.x * stride.column;
  const int64_t widest = p.channels > 4 ? p.channels : 4;  // floats read at a pixel
  const int64_t reach =
      (row_bytes > 0 ? stride.row : 0) + (column_bytes > 0 ? stride.column : 0) + widest;
  const char* image_end = end_of(p.image, stride, p.batch, p.channels, p.height, p.width, size);
  const char* grad_end =
      end_of(p.output, p.output_stride, p.batch, p.channels, p.output_height, p.output_width, size);
  const float* last_grad = grad + (end - 1) * p.output_stride.column;
  if (taps.highest + reach * size > image_end - reinterpret_cast<const char*>(first)) return false;
  if (reinterpret_cast<const char*>(last_grad + widest) > grad_end) return false;
  for (int i = 0; i < count; ++i) {
    const float* tap = first + taps.offset[i] / size;
    const float* from = grad + (begin + i) * p.output_stride.column;
    const Quad wx(taps.wx[i]), wy(taps.wy[i]);
    float gx = 0.0f, gy = 0.0f;
    for (int64_t c = 0; c < p.channels; c += 4) {
      // The last quad ends with the last channel, and repeats some earlier ones.
      const int64_t at = c + 4 <= p.channels || p.channels < 4 ? c : p.channels - 4;
      const Quad a = Quad::load(tap + at), b = Quad::load(tap + stride.column + at);
      const Quad left = Quad::load(tap + stride.row + at) - a;
      const Quad right = Quad::load(tap + stride.row + stride.column + at) - b;
      const Quad g = Quad::load(from + at);
      float x[4], y[4];
      (g * ((b + wy * right) - (a + wy * left))).store(x);
      (g * (left + wx * (right - left))).store(y);
      const int64_t stop = p.channels - at < 4 ? p.channels - at : 4;
      for (int64_t k = c - at; k < stop; ++k) {
        gx = gx + x[k];
        gy = gy + y[k];
      }
    }
    sums.x[begin - x0 + i] = gx;
    sums.y[begin - x0 + i] = gy;
  }
  return true;
}

template <class T, Interpolation mode>
void row_gradient(const AffineParams& p, const AffineMap& map, int64_t sample, int64_t y,
                  double (&totals)[4]) {
  using Acc = typename Accumulate<T>::type;
  const T* image = static_cast<const T*>(p.image) + sample * p.image_stride.batch;
  const T* grad =
      static_cast<const T*>(p.output) + sample * p.output_stride.batch + y * p.output_stride.row;
  const RowSpans spans = row_spans(p, map, mode, y);
  [[maybe_unused]] const Runs runs = runs_of<T>(p, map);
  for (int64_t x0 = spans.touching.begin & -kSegment; x0 < spans.touching.end; x0 += kSegment) {
    const SegmentOrigin<Acc> origin = segment_origin<Acc>(map.m, x0, y);
    const Span segment = intersect(spans.touching, {x0, x0 + kSegment});
    SegmentGradient<Acc> sums = {};
    Span run = {segment.end, segment.end};  // done in vectors
    if constexpr (std::is_same<T, float>::value && mode == Interpolation::kBilinear) {
      const Span inside = intersect(segment, spans.inside);
      if (inside.begin < inside.end && runs == Runs::kPlanes) {
        run = inside;
        differentiate_planes(p, map, origin, image, grad, x0, run.begin, run.end, sums);
      } else if (inside.begin < inside.end && runs == Runs::kQuads &&
                 differentiate_quads(p, map, origin, image, grad, x0, inside.begin, inside.end,
                                     sums)) {
        run = inside;
      }
    }
    const auto one_by_one = [&](int64_t begin, int64_t end) {
      differentiate_pixels<T, mode>(p, map, origin, image, grad, x0, begin, end, sums);
    };
    one_by_one(segment.begin, run.begin);
    one_by_one(run.end, segment.end);
    for (int64_t group = 0; group < kSegment; group += kTreeLeaves) {
      double lane[4][kTreeLeaves];
      for (int64_t i = 0; i < kTreeLeaves; ++i) {
        const double x = static_cast<double>(x0 + group + i);
        const double gx = static_cast<double>(sums.x[group + i]);
        const double gy = static_cast<double>(sums.y[group + i]);
        lane[0][i] = gx;
        lane[1][i] = gx * x;
        lane[2][i] = gy;
        lane[3][i] = gy * x;
      }
      for (int k = 0; k < 4; ++k) totals[k] += sum_lanes(lane[k]);
    }
  }
}

template <class T>
void row_gradient(const AffineParams& p, const AffineMap& map, int64_t sample, int64_t y,
                  double (&totals)[4]) {
  if (p.mode == Interpolation::kBilinear) {
    row_gradient<T, Interpolation::kBilinear>(p, map, sample, y, totals);
  } else if (p.mode == Interpolation::kBicubic) {
    row_gradient<T, Interpolation::kBicubic>(p, map, sample, y, totals);
  }
}

void sum_rows(const AffineBackwardMatrixParams& params, int64_t begin, int64_t end) {
  const AffineParams& p = params.forward;
  for_each_sample(begin, end, p.output_height, [&](int64_t sample, int64_t first, int64_t last) {
    const AffineMap map = affine_map(p, sample);
    ReadAhead ahead = read_ahead(p, map, sample, {0, p.output_width}, {first, last});
    for (int64_t y = first; y < last; ++y) {
      double totals[4] = {};
      ahead.at(y);
      if (map.valid && p.height > 0 && p.width > 0) {
        switch (p.dtype) {
          case DType::kFloat16: row_gradient<Half>(p, map, sample, y, totals); break;
          case DType::kBFloat16: row_gradient<BFloat16>(p, map, sample, y, totals); break;
          case DType::kFloat64: row_gradient<double>(p, map, sample, y, totals); break;
          default: row_gradient<float>(p, map, sample, y, totals); break;
        }
      }
      memcpy(params.row_sums + (sample * p.output_height + y) * 4, totals, sizeof(totals));
    }
  });
}

// From row_sums to grad_matrix.
void finish_matrices(const AffineBackwardMatrixParams& params, int64_t begin, int64_t end) {
  const AffineParams& p = params.forward;
  const int64_t rows = p.batch * p.output_height / params.matrices;
  for (int64_t matrix = begin; matrix < end; ++matrix) {
    double lane[6][kTreeLeaves] = {};
    for (int64_t r = 0; r < rows; ++r) {
      const double* sums = params.row_sums + (matrix * rows + r) * 4;
      const int64_t l = r % kTreeLeaves;
      const double y = static_cast<double>(r % p.output_height);
      lane[0][l] += sums[1];
      lane[1][l] += sums[0] * y;
      lane[2][l] += sums[0];
      lane[3][l] += sums[3];
      lane[4][l] += sums[2] * y;
      lane[5][l] += sums[2];
    }
    double grad_map[6], grad_matrix[6] = {};
    for (int k = 0; k < 6; ++k) grad_map[k] = sum_lanes(lane[k]);
    if (affine_map(p, matrix).valid) affine_map_backward(p, matrix, grad_map, grad_matrix);
    memcpy(params.grad_matrix + matrix * 6, grad_matrix, sizeof(grad_matrix));
  }
}

void affine_backward_matrix_kernel(const AffineBackwardMatrixParams& given, Workspace& workspace) {
  AffineBackwardMatrixParams params = given;
  const AffineParams& p = params.forward;
  const int64_t rows = p.batch * p.output_height;
  params.row_sums = allocate<double>(workspace, rows * 4);
  for_items(workspace, params, rows, p.channels * p.output_width, sum_rows);
  for_items(workspace, params, params.matrices, 6 * rows, finish_matrices);
}

const bool registered = affine_backward_matrix_stub.set(kIsaSlot, affine_backward_matrix_kernel);

}  // namespace
}  // namespace visops
