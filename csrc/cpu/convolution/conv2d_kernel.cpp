// NOTE [ The networks' convolution on the CPU ]
// First, workers pack the weights by phase, then group: strips of rows (output channels), column by
// column, after their bias. Then workers take blocks of output pixels. A block's inputs become a
// band (NOTE [ Bands of images ]) once. Each tile, a strip of channels by a few vectors of adjacent
// pixels, is summed in registers from the first k to the last: no sum is kept in memory, and none
// depends on how the work was cut.
//
// All tiles of a block read a strip's weights while they are in a near cache; all strips read the
// band, which is sized for the second-level cache.
#include "core/convolution/conv2d.h"
#include "cpu/convolution/conv2d_pixels.h"
#include "cpu/convolution/work_parts.h"
#include "cpu/gemm.h"

namespace visops {
namespace {

VISOPS_ALWAYS_INLINE int64_t packed_rows(int64_t rows) { return rows + (rows % 4 == 3); }

// A phase, and the offset of its packed weights, in values.
struct ConvPhase {
  ConvAxis y, x;
  int64_t depth;   // k's
  int64_t packed;  // of all groups
};

// Calls work(phase) for each phase in turn.
template <class Work>
VISOPS_ALWAYS_INLINE void for_each_phase(const Conv2dParams& p, const Work& work) {
  const int64_t count_y = phases_y(p), count_x = phases_x(p);
  ConvPhase phase = {};
  for (int64_t i = 0; i < count_y; ++i) {
    phase.y = axis_of(p, p.y, i);
    for (int64_t j = 0; j < count_x; ++j) {
      phase.x = axis_of(p, p.x, j);
      phase.depth = matrix_planes(p) * phase.y.taps * phase.x.taps;
      work(phase);
      phase.packed += p.groups * packed_rows(matrix_rows(p)) * (phase.depth + 1);
    }
  }
}

template <class Element, int rows>
void pack_strip(const Conv2dParams& p, const ConvPhase& phase, int64_t group, int64_t first,
                typename Element::Value* VISOPS_RESTRICT to) {
  using Value = typename Element::Value;
  const int64_t most = matrix_rows(p), planes = matrix_planes(p);
  const int64_t present = least_of(rows, most - first);
  for (int m = 0; m < rows; ++m) {
    *to++ = m < present ? bias_value<Element>(p, group, first + m) : Value{};
  }
  const auto* weight = static_cast<const typename Element::Stored*>(p.weight);
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t v = 0; v < phase.y.taps; ++v) {
      for (int64_t u = 0; u < phase.x.taps; ++u, to += rows) {
        const int64_t at = group * p.weight_group + phase.y.kernel_index(v) * p.weight_row +
                           phase.x.kernel_index(u) * p.weight_column;
        if (Element::kParts == 1 && present == rows) {  // what every network has
          const auto* element = weight + at + plane * p.weight_from + first * p.weight_to;
          VISOPS_UNROLL
          for (int m = 0; m < rows; ++m) to[m] = conv_value(element[m * p.weight_to]);
          continue;
        }
        for (int64_t m = 0; m < rows; ++m) {
          to[m] = m < present ? weight_value<Element>(p, first + m, plane, at) : Value{};
        }
      }
    }
  }
}

template <class Element>
void pack_weights(const Conv2dParams& p, int64_t workers, int64_t begin, int64_t end,
                  typename Element::Value* packed) {
  const int64_t rows = matrix_rows(p), padded = packed_rows(rows);
  int64_t task = 0;
  for_each_phase(p, [&](const ConvPhase& phase) {
    for (int64_t group = 0; group < p.groups; ++group) {
      auto* to = packed + phase.packed + group * padded * (phase.depth + 1);
      for (int64_t row = 0; row < rows; ++task) {
        const int strip = gemm_strip(rows - row);
        const int64_t worker = task % workers;
        if (worker >= begin && worker < end) {
          auto* at = to + row * (phase.depth + 1);
          if (strip == kGemmRows) {
            pack_strip<Element, kGemmRows>(p, phase, group, row, at);
          } else if (strip == 4) {
            pack_strip<Element, 4>(p, phase, group, row, at);
          } else if (strip == 2) {
            pack_strip<Element, 2>(p, phase, group, row, at);
          } else {
            pack_strip<Element, 1>(p, phase, group, row, at);
          }
        }
        row += strip;
      }
    }
  });
}

// Pixels that are adjacent both in a tile and in a row of the output.
struct TileRun {
  int64_t at;  // in the tile
  int64_t count;
  int64_t to;  // in the channel's plane
};

// A tile's columns, at most: those of the smallest values.
constexpr int kMostTile = kGemmVectors * kVectorBytes / 2;

template <class Element>
struct BlockRunner {
  using Value = typename Element::Value;
  using Stored = typename Element::Stored;
  static constexpr int kCount = Vector<Value>::kCount;
  static constexpr int kTile = kGemmVectors * kCount;

  const Conv2dParams& p;
  const ConvBlock& block;
  int64_t depth;
  const int32_t* offsets;
  const Value* band;
  const Value* weights;  // of the group
  Stored* to;            // the block's image, group and phase

  int runs_of(int64_t first, int64_t columns, TileRun* runs) const {
    int count = 0;
    int64_t row = first / block.width, column = first - row * block.width;
    for (int64_t at = 0; at < columns; ++row, column = 0) {
      if (column < block.columns) {
        const int64_t length = least_of(block.columns - column, columns - at);
        const int64_t y = block.y.out_first + (block.first_row + row) * block.y.out_step;
        const int64_t x = block.x.out_first + (block.first_column + column) * block.x.out_step;
        runs[count++] = {at, length,
                         (y * p.to.row_stride + x * p.to.column_stride) * Element::kParts};
      }
      at += block.width - column;
    }
    return count;
  }

  void write(const Value* tile, int64_t first, int64_t rows, const TileRun* runs, int count) const {
    const int64_t step = block.x.out_step * p.to.column_stride;
    for (int r = 0; r < count; ++r) {
      for (int64_t m = 0; m < rows; ++m) {
        const int64_t row = first + m, part = row % Element::kParts;
        Stored* out = to + row / Element::kParts * p.to.channel_stride * Element::kParts + part;
        store_run<Element>(out + runs[r].to, step, tile + m * kTile + runs[r].at, runs[r].count);
      }
    }
  }

  void strip(int64_t first, int rows, int64_t most) const {
    const Value* a = weights + first * (depth + 1);
    const GemmTile<Value> whole = gemm_of<Value>(rows, kGemmVectors);
    const int64_t pixels = (block.rows - 1) * block.width + block.columns;
    const int64_t written = least_of(rows, most - first);
    // A whole tile within a row may be summed in place.
    const bool plain = sizeof(Value) == sizeof(Stored) && Element::kParts == 1 &&
                       p.to.column_stride * block.x.out_step == 1 && written == rows;
    Value tile[kGemmRows * kTile];
    TileRun runs[kMostTile];
    for (int64_t pixel = 0; pixel < pixels; pixel += kTile) {
      const int64_t columns = least_of(kTile, pixels - pixel);
      const int count = runs_of(pixel, columns, runs);
      if (count == 0) continue;
      if (plain && runs[0].count == kTile) {
        auto* out = reinterpret_cast<Value*>(to + first * p.to.channel_stride + runs[0].to);
        whole(a, band + pixel, offsets, depth, out, p.to.channel_stride);
        continue;
      }
      const int vectors = static_cast<int>((columns + kCount - 1) / kCount);
      const GemmTile<Value> gemm = vectors == kGemmVectors ? whole : gemm_of<Value>(rows, vectors);
      gemm(a, band + pixel, offsets, depth, tile, kTile);
      write(tile, first, written, runs, count);
    }
  }
};

// A worker's share, with scratch of its own.
template <class Element>
struct ConvWorker {
  using Value = typename Element::Value;
  using Stored = typename Element::Stored;

  const Conv2dParams& p;
  const Conv2dPlan& plan;
  const Value* weights;  // packed
  char* scratch;
  int64_t last_image = -1, last_block = -1;  // whose band this is
  const Value* band = nullptr;

  // Makes the band of a block and the offsets of im2col's columns in it.
  void make_band(ConvBlock block, int64_t depth, int64_t batch, int64_t group) {
    const ConvMap& map = p.from;
    auto* offsets = reinterpret_cast<int32_t*>(scratch);
    const int64_t at = batch * map.batch_stride + group * p.from_channels * map.channel_stride;
    const auto* from = static_cast<const Stored*>(map.data) + at * Element::kParts;
    const int64_t elements =
        (p.batch - 1) * map.batch_stride + (p.groups * p.from_channels - 1) * map.channel_stride +
        (block.y.size - 1) * map.row_stride + (block.x.size - 1) * map.column_stride + 1;
    const int64_t pixel =
        (block.y.first + block.first_row) * map.row_stride + block.x.first + block.first_column;
    const int64_t between =
        image_as_band<Element>(block, map, p.from_channels, elements - at - pixel);
    if (between > 0) {
      block.plane = between;
      band = reinterpret_cast<const Value*>(from + pixel);
    } else {
      auto* own = reinterpret_cast<Value*>(scratch + offsets_bytes(depth));
      fill_any_band<Element>(block, from, map, p.from_channels, own);
      band = own;
    }
    band_offsets(block, matrix_planes(p), offsets);
  }

  // A block of one phase, up to plan.block_rows by plan.block_columns.
  void run_task(const ConvPhase& phase, int64_t image, int64_t block_id, int64_t first_row,
                int64_t first_column, int64_t chunk) {
    const int64_t rows = least_of(plan.block_rows, phase.y.count - first_row);
    const int64_t columns = least_of(plan.block_columns, phase.x.count - first_column);
    if (rows <= 0 || columns <= 0) return;
    const ConvBlock block = conv_block(phase.y, phase.x, first_row, rows, first_column, columns);
    const int64_t batch = image / p.groups, group = image % p.groups;
    if (image != last_image || block_id != last_block) {
      make_band(block, phase.depth, batch, group);
      last_image = image, last_block = block_id;
    }
    const auto* offsets = reinterpret_cast<const int32_t*>(scratch);
    const int64_t most = matrix_rows(p), padded = packed_rows(most);
    const Value* packed = weights + phase.packed + group * padded * (phase.depth + 1);
    auto* to =
        static_cast<Stored*>(p.to.data) +
        (batch * p.to.batch_stride + group * p.to_channels * p.to.channel_stride) * Element::kParts;
    const BlockRunner<Element> runner = {p, block, phase.depth, offsets, band, packed, to};
    int64_t strip = 0;
    for (int64_t row = 0; row < most; ++strip) {
      const int strip_rows = gemm_strip(most - row);
      if (strip % plan.row_chunks == chunk) runner.strip(row, strip_rows, most);
      row += strip_rows;
    }
  }

  void run(int64_t worker) {
    const int64_t images = p.batch * p.groups;
    int64_t block_id = 0;  // of all phases
    for_each_phase(p, [&](const ConvPhase& phase) {
      const int64_t blocks_x = (phase.x.count + plan.block_columns - 1) / plan.block_columns;
      const int64_t blocks = (phase.y.count + plan.block_rows - 1) / plan.block_rows * blocks_x;
      const int64_t tasks = images * blocks * plan.row_chunks;
      const int64_t begin = tasks * worker / plan.workers,
                    end = tasks * (worker + 1) / plan.workers;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t chunk = task % plan.row_chunks, which = task / plan.row_chunks;
        const int64_t block = which % blocks, image = which / blocks;
        run_task(phase, image, block_id + block, block / blocks_x * plan.block_rows,
                 block % blocks_x * plan.block_columns, chunk);
      }
      block_id += blocks;
    });
  }
};

void conv2d_kernel(const Conv2dParams& p, Workspace& workspace) {
  const Conv2dPlan plan = plan_conv2d(p, workspace.threads());
  char* memory = allocate<char>(workspace, plan.bytes);
  char* scratch = memory + plan.packed_bytes;
  with_conv_element(p.kind, [&](auto element) {
    using Element = decltype(element);
    auto* packed = reinterpret_cast<typename Element::Value*>(memory);
    parallel_for(workspace, plan.workers, 1, [&](int64_t begin, int64_t end) {
      pack_weights<Element>(p, plan.workers, begin, end, packed);
    });
    parallel_for(workspace, plan.workers, 1, [&](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) {
        ConvWorker<Element> one = {p, plan, packed, scratch + worker * plan.worker_bytes};
        one.run(worker);
      }
    });
  });
}

const bool registered = conv2d_stub.set(kIsaSlot, conv2d_kernel);

}  // namespace
}  // namespace visops
