#include "core/convolution/conv2d.h"

#include <algorithm>

#include "core/check.h"
#include "core/convolution/conv2d_band.h"
#include "core/convolution/conv2d_element.h"

namespace visops {

KernelStub<Conv2dParams> conv2d_stub{"conv2d"};
KernelStub<Conv2dWeightParams> conv2d_backward_weight_stub{"conv2d_backward_weight"};

namespace {

// Half of a second level cache, so that weights and results have room beside a band.
constexpr int64_t kBandBytes = 256 << 10;
// Fewer columns than that in a block, and too much of it is computed twice or thrown away.
constexpr int64_t kFewColumns = 192;
constexpr int64_t kFewRows = 4;
// Products for which a thread is worth waking.
constexpr int64_t kWorkerProducts = 1 << 20;
// Offsets within a band have 32 bits.
constexpr int64_t kMostOffset = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The largest of all phases.
struct AxisExtent {
  int64_t count = 0, classes = 0, shift = 0, taps = 0;
  void include(const ConvAxis& axis) {
    count = std::max(count, axis.count);
    classes = std::max(classes, band_classes(axis));
    shift = std::max(shift, band_extent(axis, 0));
    taps = std::max(taps, axis.taps);
  }
  int64_t of(int64_t outputs) const { return saturating_product(classes, outputs + shift); }
};

int64_t band_values(int64_t planes, const AxisExtent& y, int64_t rows, const AxisExtent& x,
                    int64_t columns) {
  return saturating_product(planes, saturating_product(y.of(rows), x.of(columns)));
}

struct BlockSize {
  int64_t rows, columns;
};

// As many as a band of `most` values allows, in equal parts.
int64_t block_rows(int64_t planes, const AxisExtent& y, const AxisExtent& x, int64_t columns,
                   int64_t most) {
  const int64_t per_row = std::max<int64_t>(1, band_values(planes, y, 1 - y.shift, x, columns));
  const int64_t rows = std::clamp<int64_t>(most / per_row - y.shift, 1, y.count);
  return ceil_div(y.count, ceil_div(y.count, rows));
}

BlockSize block_size(int64_t planes, const AxisExtent& y, const AxisExtent& x, int64_t most) {
  const int64_t few_rows = std::min(kFewRows, y.count);
  int64_t columns = x.count;
  while (columns > kFewColumns && band_values(planes, y, few_rows, x, columns) > most) {
    columns = std::max(kFewColumns, ceil_div(columns, 2));
  }
  return {block_rows(planes, y, x, columns, most), columns};
}

int64_t workers_for(int64_t products, int64_t threads) {
  return std::clamp<int64_t>(products / kWorkerProducts, 1, threads);
}

// Whole lines of the cache; and zeros are written in whole vectors.
int64_t scratch_bytes(int64_t columns, int64_t bytes) {
  constexpr int64_t kLine = 64;
  return offsets_bytes(columns) + (ceil_div(bytes, kLine) + 1) * kLine;
}

void check_band(const char* op, int64_t values, const AxisExtent& y, const AxisExtent& x) {
  require(values <= kMostOffset - x.shift, op, "weight has ", y.taps, " by ", x.taps,
          " elements that with this stride and dilation reach over ", values,
          " elements of the input for one block of output, must be <= ", kMostOffset);
}

}  // namespace

ConvSizes conv_sizes(const ConvArguments& a) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto require_range = [&](const char* name, int64_t value, int64_t least) {
    require(value >= least && value <= kMost, a.op, name, " is ", value, ", must be >= ", least,
            " and <= ", kMost);
  };
  require_range("stride", a.stride, 1);
  require_range("dilation", a.dilation, 1);
  require_range("padding", a.before, 0);
  require_range("padding", a.after, 0);
  require(a.input <= kMost, a.op, "input has ", a.axis, " ", a.input, ", must be <= ", kMost);
  require(a.kernel >= 1 && a.kernel <= kMost, a.op, "weight has kernel ", a.axis, " ", a.kernel,
          ", must be >= 1 and <= ", kMost);
  const int64_t padded = a.input + a.before + a.after;
  const int64_t reach = (a.kernel - 1) * a.dilation + 1;
  require(reach <= padded, a.op, "weight has kernel ", a.axis, " ", a.kernel,
          a.dilation > 1 ? " (" + std::to_string(reach) + " with dilation)" : std::string(),
          ", must be <= the padded input's ", a.axis, " ", padded);
  return {a.input, a.kernel, (padded - reach) / a.stride + 1, a.stride, a.dilation, a.before};
}

int64_t packed_bytes(const Conv2dParams& p) {
  const int64_t parts = conv_parts(p.kind), rows = p.to_channels * parts;
  const int64_t planes = saturating_product(p.from_channels, parts);
  int64_t taps_y = 0, taps_x = 0;
  for (int64_t i = 0; i < phases_y(p); ++i) taps_y += axis_of(p, p.y, i).taps;
  for (int64_t i = 0; i < phases_x(p); ++i) taps_x += axis_of(p, p.x, i).taps;
  const int64_t depths = saturating_product(planes, taps_y * taps_x);
  const int64_t biases = phases_y(p) * phases_x(p);
  const int64_t columns = depths > kMostBytes - biases ? kMostBytes : depths + biases;
  return saturating_product(saturating_product(p.groups * (rows + 1), columns), term_size(p.kind));
}

void plan_conv2d(const char* op, Conv2dParams& p, int64_t threads) {
  AxisExtent y, x;
  for (int64_t i = 0; i < phases_y(p); ++i) y.include(axis_of(p, p.y, i));
  for (int64_t i = 0; i < phases_x(p); ++i) x.include(axis_of(p, p.x, i));
  const int64_t parts = conv_parts(p.kind), planes = saturating_product(p.from_channels, parts);
  const int64_t size = term_size(p.kind), rows = p.to_channels * parts;
  BlockSize block = block_size(planes, y, x, kBandBytes / size);

  const int64_t images = p.batch * p.groups * phases_y(p) * phases_x(p);
  const int64_t depth = saturating_product(planes, saturating_product(y.taps, x.taps));
  const int64_t pixels = saturating_product(saturating_product(images, y.count), x.count);
  p.workers = workers_for(saturating_product(saturating_product(pixels, depth), rows), threads);
  const auto tasks = [&] {
    return images * ceil_div(y.count, block.rows) * ceil_div(x.count, block.columns);
  };
  // Several for each worker, as they don't take equally long.
  while (p.workers > 1 && tasks() < 4 * p.workers && block.rows > kFewRows) {
    block.rows = ceil_div(block.rows, 2);
  }
  const int64_t strips = ceil_div(rows, 8);
  p.row_chunks = tasks() < p.workers ? std::min(strips, ceil_div(p.workers, tasks())) : 1;
  p.block_rows = block.rows;
  p.block_columns = block.columns;
  const int64_t values = band_values(planes, y, block.rows, x, block.columns);
  check_band(op, values, y, x);
  p.scratch_bytes = scratch_bytes(depth, (values + x.shift + kBandSlack) * size);
}

void plan_conv2d_weight(const char* op, Conv2dWeightParams& p, int64_t threads) {
  AxisExtent y, x;
  y.include(forward_axis(p.y));
  x.include(forward_axis(p.x));
  const int64_t parts = conv_parts(p.kind), size = term_size(p.kind);
  const int64_t depth = saturating_product(y.taps, x.taps);
  const int64_t products = saturating_product(
      saturating_product(p.batch * p.groups * p.out_channels * parts, p.in_channels * parts),
      saturating_product(depth, p.y.output * p.x.output));
  p.workers = workers_for(products, threads);
  p.in_block = std::min<int64_t>(p.in_channels, 16);
  p.out_block = std::min<int64_t>(p.out_channels, 64);
  // Ends of bands are where lanes are added up: they may not depend on the number of threads.
  p.block_rows = block_rows((p.in_block + p.out_block) * parts, y, x, x.count, kBandBytes / size);
  const auto tasks = [&] {
    return p.groups * ceil_div(p.in_channels, p.in_block) * ceil_div(p.out_channels, p.out_block);
  };
  while (p.workers > 1 && tasks() < 2 * p.workers && p.in_block > 1) {
    p.in_block = ceil_div(p.in_block, 2);
  }
  while (p.workers > 1 && tasks() < 2 * p.workers && p.out_block > 8) {
    p.out_block = ceil_div(p.out_block, 2);
  }
  const int64_t planes = p.in_block * parts;
  const int64_t values = band_values(planes, y, p.block_rows, x, x.count);
  check_band(op, values, y, x);
  const int64_t length = p.block_rows * (x.count + x.shift) + kBandSlack;
  const int64_t sums = p.out_block * parts * planes * depth;
  const int64_t all = values + x.shift + kBandSlack + (p.out_block * parts + 1) * length + sums;
  p.scratch_bytes = scratch_bytes(planes * depth, all * size);
}

}  // namespace visops
