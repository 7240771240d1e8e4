// NOTE [ The weight's gradient on the CPU ]
// A worker takes a block of output channels and a block of input channels. Some rows of an image at
// a time, both become bands of the same width. The gradient of a weight is then a sum of products
// of two runs of memory: the gradient's plane, and the input's plane at the offset of a kernel
// element. Tiles of such sums stay in registers, with a lane for every kCount-th pixel; lanes are
// added up at the end of a band. Between rows of outputs the gradient's planes hold 0 and the
// input's are masked, as they may be infinite.
#include "core/convolution/conv2d.h"
#include "cpu/convolution/conv2d_pixels.h"
#include "cpu/convolution/work_parts.h"
#include "cpu/gemm.h"

namespace visops {
namespace {

// Dot products over adjacent pixels, for a tile of gradients by columns of im2col.

// x & mask, so that masked elements give 0 even if they are infinite.
template <class T>
VISOPS_GEMM_INLINE Vector<T> gemm_masked(Vector<T> x, const T* mask) {
#if defined(__GNUC__)
  if constexpr (T(0.5) != T(0)) {
    using Bits = Register<uint64_t>::type;
    return {(typename Register<T>::type)((Bits)x.v & (Bits)load_vector(mask).v)};
  }
#else
  Vector<T> kept = x;
  for (int i = 0; i < Vector<T>::kCount; ++i) kept.v.lane[i] = mask[i] == T{} ? T{} : x.v.lane[i];
  return kept;
#endif
  return x;
}

// sums[m][j] += the sum over pixels q of g[m][q] * x[offsets[j] + q], q < length
template <class T, int rows, int columns>
VISOPS_GEMM void gemm_dot(const T* g, int64_t length, const T* x, const int32_t* offsets,
                          const T* mask, T* sums, int64_t sums_row) {
  constexpr int kCount = Vector<T>::kCount;
  const T* from[columns];
  VISOPS_UNROLL
  for (int j = 0; j < columns; ++j) from[j] = x + offsets[j];
  Vector<T> sum[rows][columns];
  VISOPS_UNROLL
  for (int m = 0; m < rows; ++m) {
    VISOPS_UNROLL
    for (int j = 0; j < columns; ++j) sum[m][j] = broadcast(T{});
  }
  for (int64_t q = 0; q < length; q += kCount) {
    Vector<T> pixels[columns];
    VISOPS_UNROLL
    for (int j = 0; j < columns; ++j) pixels[j] = gemm_masked(load_vector(from[j] + q), mask + q);
    VISOPS_UNROLL
    for (int m = 0; m < rows; ++m) {
      const Vector<T> grad = load_vector(g + m * length + q);
      VISOPS_UNROLL
      for (int j = 0; j < columns; ++j) sum[m][j] = gemm_multiply_add(grad, pixels[j], sum[m][j]);
    }
  }
  for (int m = 0; m < rows; ++m) {
    for (int j = 0; j < columns; ++j) {
      T lanes[kCount];
      store_vector(lanes, sum[m][j]);
      VISOPS_UNROLL
      for (int half = kCount / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) lanes[i] = static_cast<T>(lanes[i] + lanes[i + half]);
      }
      T& total = sums[m * sums_row + j];
      total = static_cast<T>(total + lanes[0]);
    }
  }
}

template <class T>
using GemmDot = void (*)(const T*, int64_t, const T*, const int32_t*, const T*, T*, int64_t);

template <class T, int rows>
GemmDot<T> gemm_dot_of_rows(int columns) {
  return columns == 1 ? gemm_dot<T, rows, 1> : gemm_dot<T, rows, kGemmVectors>;
}

template <class T>
GemmDot<T> gemm_dot_of(int rows, int columns) {
  if (rows == 1) return gemm_dot_of_rows<T, 1>(columns);
  if (rows == 2) return gemm_dot_of_rows<T, 2>(columns);
  if (rows == 4) return gemm_dot_of_rows<T, 4>(columns);
  return gemm_dot_of_rows<T, kGemmRows>(columns);
}

template <class Element>
struct WeightWorker {
  using Value = typename Element::Value;
  using Stored = typename Element::Stored;
  static constexpr int kParts = Element::kParts;
  static constexpr int kCount = Vector<Value>::kCount;

  const Conv2dWeightParams& p;
  const Conv2dWeightPlan& plan;
  char* scratch;
  ConvAxis y = forward_axis(p.y), x = forward_axis(p.x);
  int64_t taps = y.taps * x.taps;

  const Stored* plane(const ConvMap& map, int64_t image, int64_t channel) const {
    return static_cast<const Stored*>(map.data) +
           (image * map.batch_stride + channel * map.channel_stride) * kParts;
  }

  // Rows of a channel, `width` elements each; zeros follow the outputs, up to a whole vector.
  void fill_plane(const Stored* from, const ConvBlock& block, int64_t length, Value* to) const {
    for (int64_t j = 0; j < block.rows; ++j) {
      load_run<Element>(to, from + (block.first_row + j) * p.grad.row_stride * kParts,
                        p.grad.column_stride, block.columns);
      const int64_t zeros = j + 1 < block.rows
                                ? block.width - block.columns
                                : length - (block.rows - 1) * block.width - block.columns;
      zero_vectors(to + block.columns, zeros);
      to += block.width;
    }
  }

  // The mask of a plane as laid out by fill_plane(): all ones for outputs.
  void fill_mask(const ConvBlock& block, int64_t length, Value* to) const {
    for (int64_t i = 0; i < length; ++i) {
      const bool is_output = i % block.width < block.columns && i / block.width < block.rows;
      memset(to + i, is_output ? 0xff : 0, sizeof(Value));
    }
  }

  void run_task(int64_t group, int64_t first_out, int64_t first_in) {
    const int64_t outs = least_of(plan.out_block, p.out_channels - first_out);
    const int64_t ins = least_of(plan.in_block, p.in_channels - first_in);
    const int64_t out_planes = outs * kParts, in_planes = ins * kParts;
    const int64_t columns = in_planes * taps;
    auto* offsets = reinterpret_cast<int32_t*>(scratch);
    auto* sums = reinterpret_cast<Value*>(scratch + offsets_bytes(columns));
    zero_vectors(sums, out_planes * columns);
    Value* mask = sums + out_planes * columns;
    int64_t last_rows = 0, length = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
      for (int64_t row = 0; row < y.count; row += plan.block_rows) {
        const int64_t rows = least_of(plan.block_rows, y.count - row);
        const ConvBlock block = conv_block(y, x, row, rows, 0, x.count);
        if (rows != last_rows) {
          length = (rows - 1) * block.width + block.columns;
          length = (length + kCount - 1) / kCount * kCount;
          fill_mask(block, length, mask);
          band_offsets(block, in_planes, offsets);
          last_rows = rows;
        }
        Value* grads = mask + length;
        Value* band = grads + out_planes * length;
        for (int64_t i = 0; i < outs; ++i) {
          const Stored* from = plane(p.grad, image, group * p.out_channels + first_out + i);
          for (int part = 0; part < kParts; ++part) {
            fill_plane(from + part, block, length, grads + (i * kParts + part) * length);
          }
        }
        fill_any_band<Element>(block, plane(p.input, image, group * p.in_channels + first_in),
                               p.input, ins, band);
        add_products(grads, out_planes, length, band, offsets, columns, mask, sums);
      }
    }
    write(sums, group * p.out_channels + first_out, outs, first_in, ins);
  }

  void add_products(const Value* grads, int64_t out_planes, int64_t length, const Value* band,
                    const int32_t* offsets, int64_t columns, const Value* mask, Value* sums) const {
    for (int64_t i = 0; i < out_planes;) {
      const int rows = gemm_strip(out_planes - i) <= out_planes - i
                           ? gemm_strip(out_planes - i)
                           : 2;  // no row too many here: there is nothing to read
      for (int64_t k = 0; k < columns;) {
        const int count = columns - k >= kGemmVectors ? kGemmVectors : 1;
        const GemmDot<Value> dot = gemm_dot_of<Value>(rows, count);
        dot(grads + i * length, length, band, offsets + k, mask, sums + i * columns + k, columns);
        k += count;
      }
      i += rows;
    }
  }

  // Combines products of real and imaginary parts into complex ones.
  void write(const Value* sums, int64_t first_out, int64_t outs, int64_t first_in,
             int64_t ins) const {
    auto* to = static_cast<Stored*>(p.weight_grad);
    const int64_t columns = ins * kParts * taps;
    for (int64_t i = 0; i < outs; ++i) {
      for (int64_t j = 0; j < ins; ++j) {
        Stored* element = to + ((first_out + i) * p.in_channels + first_in + j) * taps * kParts;
        const Value* row = sums + i * kParts * columns + j * kParts * taps;
        for (int64_t t = 0; t < taps; ++t) {
          if constexpr (kParts == 1) {
            conv_store(element + t, row[t]);
          } else {
            conv_store(element + 2 * t, row[t] - row[columns + taps + t]);
            conv_store(element + 2 * t + 1, row[taps + t] + row[columns + t]);
          }
        }
      }
    }
  }

  void run(int64_t worker) {
    const int64_t out_blocks = (p.out_channels + plan.out_block - 1) / plan.out_block;
    const int64_t in_blocks = (p.in_channels + plan.in_block - 1) / plan.in_block;
    const int64_t tasks = p.groups * out_blocks * in_blocks;
    for (int64_t task = worker; task < tasks; task += plan.workers) {
      const int64_t in_block = task % in_blocks, rest = task / in_blocks;
      run_task(rest / out_blocks, rest % out_blocks * plan.out_block, in_block * plan.in_block);
    }
  }
};

void conv2d_backward_weight_kernel(const Conv2dWeightParams& p, Workspace& workspace) {
  const Conv2dWeightPlan plan = plan_conv2d_weight(p, workspace.threads());
  char* scratch = allocate<char>(workspace, plan.scratch_bytes);
  with_conv_element(p.kind, [&](auto element) {
    parallel_for(workspace, plan.workers, 1, [&](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) {
        WeightWorker<decltype(element)> one = {p, plan, scratch + worker * plan.worker_bytes};
        one.run(worker);
      }
    });
  });
}

const bool registered = conv2d_backward_weight_stub.set(kIsaSlot, conv2d_backward_weight_kernel);

}  // namespace
}  // namespace visops
