#include "torch/roi/run.h"

#include <algorithm>

#include "core/check.h"
#include "core/roi/layout.h"
#include "core/roi/tables.h"

namespace visops {
namespace {

// What a thread copies of a map where it can choose, and at most; and the gradient of a map that it
// sums at a time.
constexpr int64_t kCacheBytes = int64_t{12} << 20, kMostBytes = int64_t{48} << 20;
constexpr int64_t kBandBytes = int64_t{4} << 20;
constexpr int64_t kLanes = 64, kFewLanes = 16;  // as in cpu/roi/sums.h
constexpr int64_t kLeastLanes = 32;             // fewer take three times as long, each (measured)

int64_t accumulator_bytes(const RoiAlignParams& p) { return p.dtype == DType::kFloat64 ? 8 : 4; }

int64_t rounded_up(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

enum class Order { kByIndex, kByPlace };

template <class Run>
void with_order(RoiAlignParams& p, Order by, const Run& run) {
  RoiOrder order = order_of_rois(p);
  if (by == Order::kByPlace) sort_by_place(p, &order);
  p.order = order.order.data();
  p.map_begin = order.map_begin.data();
  run();
}

template <class Acc, class Run>
void with_tables_of(RoiAlignParams& p, Order by, const Run& run) {
  RoiTables<Acc> tables(p);
  torch::stable::parallel_for(0, tables.chunks(), 1,
                              [&](int64_t begin, int64_t end) { tables.build(p, begin, end); });
  p.tables = tables.data();
  with_order(p, by, run);
}

template <class Run>
void with_tables(RoiAlignParams& p, Order by, const Run& run) {
  if (p.dtype == DType::kFloat64) {
    with_tables_of<double>(p, by, run);
  } else {
    with_tables_of<float>(p, by, run);
  }
}

int64_t largest(const RoiAlignParams& p, int64_t (*size_of)(const RoiMap&)) {
  int64_t most = 0;
  for (int64_t level = 0; level < p.levels; ++level) most = std::max(most, size_of(p.maps[level]));
  return most;
}

int64_t most_pixels(const RoiAlignParams& p) {
  return largest(p, [](const RoiMap& map) { return saturating_product(map.height, map.width); });
}

int64_t widest(const RoiAlignParams& p) {
  return largest(p, [](const RoiMap& map) { return map.width; });
}

// Runs over slices, each with `numbers` of scratch beside a box's bins.
void run_slices(const KernelStub<RoiAlignParams>& stub, RoiCall& call, const Tensor& on,
                int64_t numbers) {
  RoiAlignParams& p = call.params;
  const int64_t blocks = (p.channels + p.block_channels - 1) / p.block_channels;
  const int64_t threads = std::max<int64_t>(1, torch::stable::get_num_threads());
  p.slices = std::min(threads, blocks * p.levels * p.images);
  const int64_t bins = saturating_product(saturating_product(p.bins_y, p.bins_x), p.block_channels);
  const int64_t bytes = saturating_product(bins, accumulator_bytes(p));
  require(bytes < std::numeric_limits<int64_t>::max() / 4, call.op,
          "not enough memory for bins of size [", p.bins_y, ", ", p.bins_x, "]");
  p.scratch_bytes = rounded_up(bytes + numbers * accumulator_bytes(p), 64);
  const Tensor scratch =
      empty_tensor(call.op, "scratch", on, {p.slices, p.scratch_bytes}, DType::kUInt8);
  p.scratch = scratch.mutable_data_ptr();
  run(stub, p, on, p.slices, kGrain);
}

// Few enough channels that each thread has some.
int64_t channels_for_threads(const RoiAlignParams& p, int64_t channels) {
  const int64_t threads = std::max<int64_t>(1, torch::stable::get_num_threads());
  while (channels > kLeastLanes && (p.channels + channels - 1) / channels * p.images < threads) {
    channels = rounded_up(channels / 2, kFewLanes);
  }
  return channels;
}

}  // namespace

void run_over_boxes(const KernelStub<RoiAlignParams>& stub, RoiCall& call, const Tensor& on) {
  RoiAlignParams& p = call.params;
  if (p.boxes.count == 0 || (p.channels == 0 && p.grad_boxes == nullptr)) return;
  const auto run_boxes = [&] { run(stub, p, on, p.boxes.count, box_cost(p)); };
  const bool on_cuda = runs_cuda_kernels(on);
  if (on_cuda && p.grad_boxes == nullptr) return run_boxes();
  call.gather_channels();
  if (on_cuda) return run_boxes();
  with_order(p, Order::kByPlace, run_boxes);
}

void run_roi_align(RoiCall& call, const Tensor& on) {
  RoiAlignParams& p = call.params;
  if (p.boxes.count == 0 || p.channels == 0) return;
  const auto run_boxes = [&] { run(roi_align_stub, p, on, p.boxes.count, box_cost(p)); };
  if (runs_cuda_kernels(on)) return run_boxes();
  if (maps_are_lanes(p) && p.channel_stride == 1) return with_tables(p, Order::kByPlace, run_boxes);
  const int64_t pixels = most_pixels(p), bytes = accumulator_bytes(p);
  const auto bytes_of = [&](int64_t channels) {
    return saturating_product(pixels, channels * bytes);
  };
  const int64_t channels =
      channels_for_threads(p, std::min(kLanes, rounded_up(p.channels, kFewLanes)));
  p.block_channels = channels;
  while (p.block_channels > kLeastLanes && bytes_of(p.block_channels) > kCacheBytes) {
    p.block_channels = rounded_up(p.block_channels / 2, kFewLanes);
  }
  const bool fits = bytes_of(p.block_channels) <= kMostBytes;
  if (!fits) p.block_channels = channels;
  const int64_t numbers = (fits ? pixels : widest(p)) * p.block_channels;
  with_tables(p, Order::kByPlace, [&] { run_slices(roi_align_blocks_stub, call, on, numbers); });
}

void run_over_maps(const KernelStub<RoiAlignParams>& stub, RoiCall& call, const Tensor& on) {
  RoiAlignParams& p = call.params;
  if (p.channels == 0 || p.images == 0 || most_pixels(p) == 0) return;
  if (runs_cuda_kernels(on)) {
    const Tensor spans = empty_tensor(call.op, "scratch", on, {p.boxes.count, 3}, DType::kInt64);
    p.spans = spans.mutable_data_ptr();
    return run(stub, p, on, p.images, most_pixels(p));
  }
  const bool is_in_place = maps_are_lanes(p);
  const int64_t all = rounded_up(p.channels, kFewLanes);
  p.block_channels = channels_for_threads(p, is_in_place ? all : std::min(kLanes, all));
  const int64_t row = widest(p) * p.block_channels;
  const int64_t band = std::min(saturating_product(most_pixels(p), p.block_channels),
                                kBandBytes / accumulator_bytes(p));
  const auto run_blocks = [&] {
    run_slices(stub, call, on, is_in_place ? 0 : std::max(row, band));
  };
  if (p.index != nullptr) {  // maxima are of one sample each: no lists
    with_order(p, Order::kByIndex, run_blocks);
  } else {
    with_tables(p, Order::kByIndex, run_blocks);
  }
}

}  // namespace visops
