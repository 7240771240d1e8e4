#include "core/convolution/conv2d.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/numbers/arithmetic.h"

namespace visops {

KernelStub<Conv2dParams> conv2d_stub{"conv2d"};
KernelStub<Conv2dWeightParams> conv2d_backward_weight_stub{"conv2d_backward_weight"};

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

namespace {

// Half a second-level cache: weights and results need room beside a band.
constexpr int64_t kBandBytes = 256 << 10;
// With fewer columns in a block, too much of it is computed twice or thrown away.
constexpr int64_t kFewColumns = 192;
constexpr int64_t kFewRows = 4;
// Waking a thread pays from this many products on.
constexpr int64_t kWorkerProducts = 1 << 20;
// Offsets within a band are 32 bits.
constexpr int64_t kMostOffset = std::numeric_limits<int32_t>::max();
constexpr int64_t kLine = 64;  // of the cache
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();

int64_t saturating_sum(int64_t a, int64_t b) { return a > kMostBytes - b ? kMostBytes : a + b; }

// The largest values over all phases.
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

// As many rows as a band of `most` values allows, in equal blocks.
int64_t block_rows(int64_t planes, const AxisExtent& y, const AxisExtent& x, int64_t columns,
                   int64_t most) {
  const int64_t per_row = std::max<int64_t>(1, band_values(planes, y, 1 - y.shift, x, columns));
  const int64_t rows = std::clamp<int64_t>(most / per_row - y.shift, 1, y.count);
  return parts_of(y.count, parts_of(y.count, rows));
}

BlockSize block_size(int64_t planes, const AxisExtent& y, const AxisExtent& x, int64_t most) {
  const int64_t few_rows = std::min(kFewRows, y.count);
  int64_t columns = x.count;
  while (columns > kFewColumns && band_values(planes, y, few_rows, x, columns) > most) {
    columns = std::max(kFewColumns, parts_of(columns, 2));
  }
  return {block_rows(planes, y, x, columns, most), columns};
}

int64_t workers_for(int64_t products, int64_t threads) {
  return std::clamp<int64_t>(products / kWorkerProducts, 1, threads);
}

// Whole cache lines, and one more: zeros are written in whole vectors.
int64_t scratch_bytes(int64_t columns, int64_t bytes) {
  return offsets_bytes(columns) + (parts_of(bytes, kLine) + 1) * kLine;
}

void check_band(const char* op, int64_t values, const AxisExtent& y, const AxisExtent& x) {
  require(values <= kMostOffset - x.shift, op, "weight has ", y.taps, " by ", x.taps,
          " elements that with this stride and dilation reach over ", values,
          " elements of the input for one block of output, must be <= ", kMostOffset);
}

// The packed weights of all phases and groups.
int64_t packed_bytes(const Conv2dParams& p) {
  const int64_t parts = conv_parts(p.kind), rows = p.to_channels * parts;
  const int64_t planes = saturating_product(p.from_channels, parts);
  int64_t taps_y = 0, taps_x = 0;
  for (int64_t i = 0; i < phases_y(p); ++i) taps_y += axis_of(p, p.y, i).taps;
  for (int64_t i = 0; i < phases_x(p); ++i) taps_x += axis_of(p, p.x, i).taps;
  const int64_t depths = saturating_product(planes, taps_y * taps_x);
  const int64_t biases = phases_y(p) * phases_x(p);
  const int64_t values = saturating_product(p.groups * (rows + 1), saturating_sum(depths, biases));
  const int64_t bytes = saturating_product(values, term_size(p.kind));
  return saturating_sum(bytes, kLine - 1) / kLine * kLine;
}

}  // namespace

Conv2dPlan plan_conv2d(const Conv2dParams& p, int64_t threads) {
  Conv2dPlan plan = {};
  AxisExtent y, x;
  for (int64_t i = 0; i < phases_y(p); ++i) y.include(axis_of(p, p.y, i));
  for (int64_t i = 0; i < phases_x(p); ++i) x.include(axis_of(p, p.x, i));
  const int64_t parts = conv_parts(p.kind), planes = saturating_product(p.from_channels, parts);
  const int64_t size = term_size(p.kind), rows = p.to_channels * parts;
  BlockSize block = block_size(planes, y, x, kBandBytes / size);

  const int64_t images = p.batch * p.groups * phases_y(p) * phases_x(p);
  const int64_t depth = saturating_product(planes, saturating_product(y.taps, x.taps));
  const int64_t pixels = saturating_product(saturating_product(images, y.count), x.count);
  plan.workers = workers_for(saturating_product(saturating_product(pixels, depth), rows), threads);
  const auto tasks = [&] {
    return images * parts_of(y.count, block.rows) * parts_of(x.count, block.columns);
  };
  // Several tasks per worker: they don't take equally long.
  while (plan.workers > 1 && tasks() < 4 * plan.workers && block.rows > kFewRows) {
    block.rows = parts_of(block.rows, 2);
  }
  const int64_t strips = parts_of(rows, 8);
  plan.row_chunks = tasks() < plan.workers ? std::min(strips, parts_of(plan.workers, tasks())) : 1;
  plan.block_rows = block.rows;
  plan.block_columns = block.columns;
  const int64_t values = band_values(planes, y, block.rows, x, block.columns);
  check_band(p.transposed ? "conv2d_backward_input" : "conv2d", values, y, x);
  plan.packed_bytes = packed_bytes(p);
  plan.worker_bytes = scratch_bytes(depth, (values + x.shift + kBandSlack) * size);
  const int64_t scratch = saturating_product(plan.workers, plan.worker_bytes);
  plan.bytes = saturating_sum(plan.packed_bytes, scratch);
  return plan;
}

Conv2dWeightPlan plan_conv2d_weight(const Conv2dWeightParams& p, int64_t threads) {
  Conv2dWeightPlan plan = {};
  AxisExtent y, x;
  y.include(forward_axis(p.y));
  x.include(forward_axis(p.x));
  const int64_t parts = conv_parts(p.kind), size = term_size(p.kind);
  const int64_t depth = saturating_product(y.taps, x.taps);
  const int64_t products = saturating_product(
      saturating_product(p.batch * p.groups * p.out_channels * parts, p.in_channels * parts),
      saturating_product(depth, p.y.output * p.x.output));
  plan.workers = workers_for(products, threads);
  plan.in_block = std::min<int64_t>(p.in_channels, 16);
  plan.out_block = std::min<int64_t>(p.out_channels, 64);
  // Lanes are added up at the end of a band, so where bands end must not depend on the threads.
  plan.block_rows =
      block_rows((plan.in_block + plan.out_block) * parts, y, x, x.count, kBandBytes / size);
  const auto tasks = [&] {
    return p.groups * parts_of(p.in_channels, plan.in_block) *
           parts_of(p.out_channels, plan.out_block);
  };
  while (plan.workers > 1 && tasks() < 2 * plan.workers && plan.in_block > 1) {
    plan.in_block = parts_of(plan.in_block, 2);
  }
  while (plan.workers > 1 && tasks() < 2 * plan.workers && plan.out_block > 8) {
    plan.out_block = parts_of(plan.out_block, 2);
  }
  const int64_t planes = plan.in_block * parts;
  const int64_t values = band_values(planes, y, plan.block_rows, x, x.count);
  check_band("conv2d_backward_weight", values, y, x);
  const int64_t length = plan.block_rows * (x.count + x.shift) + kBandSlack;
  const int64_t sums = plan.out_block * parts * planes * depth;
  const int64_t all = values + x.shift + kBandSlack + (plan.out_block * parts + 1) * length + sums;
  plan.worker_bytes = scratch_bytes(planes * depth, all * size);
  plan.scratch_bytes = saturating_product(plan.workers, plan.worker_bytes);
  return plan;
}

}  // namespace visops
