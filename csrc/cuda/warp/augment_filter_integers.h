// augment_filter() in integers: a warp's pixels of a row. NOTE [ Upright filter on CUDA ].
#pragma once

#include "cuda/byte_products.h"
#include "cuda/warp/augment_filter_tile.h"

namespace visops {
namespace {

constexpr int kIntegerSums = 256;  // that a warp holds at once: tap columns of all its channels

struct alignas(16) FourSums {
  int32_t of[4];
};

// Four elements in a row of one tap row, as a number with the first in the lowest byte.
struct AlignedFour {
  __device__ uint32_t operator()(const char* from) const {
    return load_readonly(reinterpret_cast<const uint32_t*>(from));
  }
};

// Where rows begin anywhere. Reads up to three elements before them, and four behind.
struct AnyFour {
  __device__ uint32_t operator()(const char* from) const {
    const uint32_t past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 4);
    const auto* const words = reinterpret_cast<const uint32_t*>(from - past);
    return __funnelshift_r(load_readonly(words), load_readonly(words + 1), 8 * past);
  }
};

// Elements of the source lie in runs of neighbours, and their sums in the same order: one run of
// all channels' elements if they are interleaved, else one for each channel.
struct IntegerPiece {
  const FilterTile<uint8_t, true>& tile;
  int32_t* sums;  // [kIntegerSums], of this warp
  int row, lane;
  int count;          // channels
  const char* image;  // the plane of the first

  __device__ bool interleaved() const {
    return count == 1 || tile.sample.image.channel_stride == 1;
  }
  // How many sums a run has room for: whole FourSums.
  __device__ int run_sums() const {
    return interleaved() ? kIntegerSums : kIntegerSums / count / 4 * 4;
  }
  __device__ int step() const { return interleaved() ? count : 1; }

  // Sums tap rows of the four elements of each row from `from` on.
  template <class Four>
  __device__ void sum_rows(const Four& four, const char* from, FourSums* sum) const {
    const int32_t taps = tile.row[row].taps.count;
    const int64_t stride = tile.sample.image.row_stride;
    const uint32_t* weights = tile.row_weight[row];
    const auto add = [&](uint32_t above, uint32_t below, uint32_t weight) {
      // p - 128 is a signed byte. Two rows' bytes in turn, for two products at once.
      const uint32_t left = __byte_perm(above, below, 0x5140) ^ 0x80808080u;
      const uint32_t right = __byte_perm(above, below, 0x7362) ^ 0x80808080u;
      const int pair = static_cast<int>(weight);
      sum->of[0] = __dp2a_lo(pair, static_cast<int>(left), sum->of[0]);
      sum->of[1] = __dp2a_hi(pair, static_cast<int>(left), sum->of[1]);
      sum->of[2] = __dp2a_lo(pair, static_cast<int>(right), sum->of[2]);
      sum->of[3] = __dp2a_hi(pair, static_cast<int>(right), sum->of[3]);
    };
    const auto next = [&] {
      const uint32_t elements = four(from);
      from += stride;
      return elements;
    };
    int32_t left = taps;
#pragma unroll 1
    for (; left >= 4; left -= 4, weights += 2) {
      const uint32_t a = next(), b = next(), c = next(), d = next();  // all on their way at once
      add(a, b, weights[0]);
      add(c, d, weights[1]);
    }
    if (left >= 2) {
      const uint32_t a = next(), b = next();
      add(a, b, *weights++);
    }
    if (left % 2 != 0) add(next(), 0, *weights);  // the second weight is 0
  }

  // Sums the tap rows of one element.
  __device__ int32_t sum_one(const char* from) const {
    const int32_t taps = tile.row[row].taps.count;
    int32_t sum = 0;
#pragma unroll 1
    for (int32_t i = 0; i < taps; ++i, from += tile.sample.image.row_stride) {
      const auto weight = static_cast<int16_t>(tile.row_weight[row][i / 2] >> (16 * (i % 2)));
      sum += weight *
             (static_cast<int32_t>(load_readonly(reinterpret_cast<const uint8_t*>(from))) - 128);
    }
    return sum;
  }

  // Sums tap columns from `from` on, and before `end`; `most` of a run. Returns how many sums lie
  // before the first one's.
  __device__ int sum_columns(int32_t from, int32_t end, int most) const {
    const AugmentImage& source = tile.sample.image;
    const FilterTaps<float>& rows = tile.row[row].taps;
    const int64_t first_row =
        filter_index(tile.y[row], tile.sample.y, Padding::kConstant, rows.first);
    const int64_t first_column = filter_index(tile.x, tile.sample.x, Padding::kConstant, from);
    const char* const begin = image + first_row * source.row_stride;
    const int64_t at = first_column * step();  // in elements of a run
    const int64_t size = source.width * step();
    const bool runs = source.column_stride == step();
    const bool aligned =
        runs && source.row_stride % 4 == 0 && (interleaved() || source.channel_stride % 4 == 0);
    const int skipped = aligned ? static_cast<int>(reinterpret_cast<uintptr_t>(begin + at) % 4) : 0;
    const int wanted = skipped + (end - from) * step();
    const int fours = ((wanted < most ? wanted : most) + 3) / 4;
    const int last_run = interleaved() ? 0 : count - 1;
    int channel = 0;
    for (int four = lane;; four += kWarp) {
      for (; four >= fours && channel <= last_run; four -= fours) ++channel;
      if (channel > last_run) break;
      const int64_t element = at - skipped + 4 * four;
      const char* const plane = begin + channel * source.channel_stride;
      FourSums sum = {};
      if (aligned && element >= 0 && element + 4 <= size) {
        sum_rows(AlignedFour{}, plane + element, &sum);
      } else if (runs && !aligned && element >= 3 && element + 8 <= size) {
        sum_rows(AnyFour{}, plane + element, &sum);
      } else {
        // Elements lie apart, or others around them may not be read.
        for (int j = 0; j < 4; ++j) {
          const int rest = 4 * four + j - skipped, tap = rest / step();
          const int64_t column = first_column + tap;
          if (rest < 0 || column >= source.width) continue;
          sum.of[j] = sum_one(plane + column * source.column_stride + (rest - tap * step()));
        }
      }
      const int shift = tile.shift[row];
      for (int j = 0; j < 4; ++j) sum.of[j] = round_column(sum.of[j], shift);
      *reinterpret_cast<FourSums*>(sums + channel * most + 4 * four) = sum;
    }
    return skipped;
  }

  // As FilterPiece::filter().
  __device__ void filter(int column, bool inside, float value[kPixelGroup]) const {
    const FilterLine<float>& line = tile.column[column];
    const int32_t wanted = inside ? line.taps.count : 0;
    const int32_t end = end_of_warp(line.taps.first, wanted);
    const int most = run_sums(), apart = interleaved() ? 1 : most;
    int32_t sum[kPixelGroup] = {};
    for (int32_t done = 0;;) {
      const int32_t next = line.taps.first + done;
      const int32_t from = least_of_warp(done < wanted ? next : INT32_MAX);
      if (from == INT32_MAX) break;
      const int skipped = sum_columns(from, end, most);
      const auto columns = static_cast<uint32_t>((most - skipped) / step());
      __syncwarp();  // their sums are there
      for (; done < wanted; ++done) {
        const uint32_t k =
            static_cast<uint32_t>(line.taps.first + done) - static_cast<uint32_t>(from);
        if (k >= columns) break;
        const int32_t weight = tile.column_weight[done][column];
        const int32_t* const at = sums + skipped + static_cast<int>(k) * step();
        for (int c = 0; c < kPixelGroup; ++c) {
          if (c >= count) break;
          sum[c] += weight * at[c * apart];
        }
      }
      __syncwarp();  // all lanes have read, before other columns take their place
    }
    for (int c = 0; c < kPixelGroup; ++c) {
      value[c] = static_cast<float>(sum[c]) * line.unit + 128.0f;
    }
  }
};

}  // namespace
}  // namespace visops
