// Images moved by a map, on the CPU.
//
// NOTE [ Maps on the CPU ]
// Positions of kChunk pixels of a row at a time are split into whole and fractional parts, once for
// all channels. Each channel is then read without conditions, in vectors where columns or three
// channels are adjacent, in which pixels with a tap outside the image read a position inside; after
// it they are computed again, tap by tap, with the padding. Both add in the same order. Where the
// map is a grid, a row's columns of it come first, then the pixels between them. Split: by rows of
// all samples.
//
// Rounding: NOTE [ One pixel of a map ], without contraction. Assumes what check_remap() checks.
#include <cstring>

#include "core/dispatch/threads.h"
#include "core/numbers/element.h"
#include "core/warp/remap.h"
#include "cpu/warp/pairs.h"

namespace visops {
namespace {

constexpr int kChunk = 64;
constexpr int kCopiesAtOnce = 16;  // for the compiler to unroll

// A part of a row of the output.
struct Chunk {
  int64_t row, first;
  int count;
};

template <class Acc>
struct MapPositions {
  int32_t x[kChunk], y[kChunk];  // whole parts
  Acc right[kChunk], below[kChunk];
  int32_t offset[kChunk];   // of (x, y) in a channel; of some pixel where a tap is outside
  int32_t outside[kChunk];  // pixels with a tap outside, outside_count of them
  int outside_count;
  int32_t highest;  // offset
};

// The numbers of a map for the pixels of a row.
template <class Acc>
class RowMap {
 public:
  RowMap(const RemapParams& p, Workspace& workspace) : p_(p) {
    if (p.grid == MapGrid::kDense) return;
    across_ = allocate<GridTaps<Acc>>(workspace, p.output_width);
    for (int64_t x = 0; x < p.output_width; ++x) {
      across_[x] = grid_taps<Acc>(p.grid, x, p.output_width, p.columns);
    }
    lines_ = allocate<Acc>(workspace, 2 * p.batch * p.output_height * p.columns);
  }

  // To be called before chunk(), by the task that has the row.
  VISOPS_NOINLINE void start_row(int64_t sample, int64_t row) const {
    if (p_.grid == MapGrid::kDense) return;
    const GridTaps<Acc> down = grid_taps<Acc>(p_.grid, row, p_.output_height, p_.rows);
    for (int axis = 0; axis < 2; ++axis) {
      Acc* const line = line_of(sample, row, axis);
      for (int64_t c = 0; c < p_.columns; ++c) {
        line[c] = grid_column(p_.grid, down, numbers_of(sample, axis), p_.columns, c);
      }
    }
  }

  // Returns a chunk's numbers of an axis, in `room` or where the map has them.
  VISOPS_NOINLINE const Acc* numbers(int64_t sample, const Chunk& chunk, int axis,
                                     Acc* room) const {
    if (p_.grid == MapGrid::kDense) {
      return numbers_of(sample, axis) + chunk.row * p_.output_width + chunk.first;
    }
    const Acc* const line = line_of(sample, chunk.row, axis);
    for (int i = 0; i < chunk.count; ++i) {
      room[i] = grid_sum(p_.grid, across_[chunk.first + i], [&](int32_t c) { return line[c]; });
    }
    return room;
  }

 private:
  const Acc* numbers_of(int64_t sample, int axis) const {
    return static_cast<const Acc*>(p_.map[axis]) + sample * p_.map_stride[axis];
  }

  Acc* line_of(int64_t sample, int64_t row, int axis) const {
    return lines_ + (2 * (sample * p_.output_height + row) + axis) * p_.columns;
  }

  const RemapParams& p_;
  GridTaps<Acc>* across_ = nullptr;
  Acc* lines_ = nullptr;  // [batch, output_height, 2, columns]
};

// Not inlined, as what follows isn't: it would be there once for each type and mode.
template <class Acc>
VISOPS_NOINLINE void find_positions(const RemapParams& p, const MapMatrix<Acc>& matrix,
                                    const Chunk& chunk, const Acc* map_x, const Acc* map_y,
                                    MapPositions<Acc>& positions) {
  const Acc base_x = static_cast<Acc>(p.relative ? chunk.first : 0);
  const Acc base_y = static_cast<Acc>(p.relative ? chunk.row : 0);
  const Acc step = static_cast<Acc>(p.relative ? 1 : 0);
  const Acc shift = static_cast<Acc>(map_shift(p.mode));
  const int before = -first_tap(p.mode), after = tap_count(p.mode) - 1 - before;
  const int count = chunk.count;
  Acc xs[kChunk], ys[kChunk];
  for (int i = 0; i < count; ++i) {
    const Acc own_x = base_x + step * static_cast<Acc>(i);
    xs[i] = map_x[i] + own_x;
    ys[i] = map_y[i] + base_y;
  }
  if (matrix.is_there) {
    for (int i = 0; i < count; ++i) to_source(matrix, xs + i, ys + i);
  }
  const auto last_x = static_cast<int32_t>(p.width - 1 - after);
  const auto last_y = static_cast<int32_t>(p.height - 1 - after);
  const auto row_stride = static_cast<int32_t>(p.image_stride.row);
  const auto column_stride = static_cast<int32_t>(p.image_stride.column);
  const int32_t safe = before * (row_stride + column_stride);
  int32_t is_outside[kChunk], any = 0;
  for (int i = 0; i < count; ++i) {
    const Acc x = limited_position(xs[i]) + shift, y = limited_position(ys[i]) + shift;
    const int32_t whole_x = whole_part(x), whole_y = whole_part(y);
    positions.x[i] = whole_x;
    positions.y[i] = whole_y;
    positions.right[i] = x - static_cast<Acc>(whole_x);
    positions.below[i] = y - static_cast<Acc>(whole_y);
    const int32_t out =
        (whole_x < before) | (whole_x > last_x) | (whole_y < before) | (whole_y > last_y);
    // Unsigned: far outside, the product overflows before it is dropped.
    const uint32_t offset = static_cast<uint32_t>(whole_y) * static_cast<uint32_t>(row_stride) +
                            static_cast<uint32_t>(whole_x) * static_cast<uint32_t>(column_stride);
    positions.offset[i] = out != 0 ? safe : static_cast<int32_t>(offset);
    is_outside[i] = out;
    any |= out;
  }
  int32_t highest = safe;
  for (int i = 0; i < count; ++i) {
    highest = positions.offset[i] > highest ? positions.offset[i] : highest;
  }
  positions.highest = highest;
  for (int i = count; i < kChunk; ++i) {  // vectors read whole chunks
    positions.offset[i] = safe;
    positions.right[i] = positions.below[i] = 0;
  }
  positions.outside_count = 0;
  if (any == 0) return;
  for (int i = 0; i < count; ++i) {
    positions.outside[positions.outside_count] = i;
    positions.outside_count += is_outside[i];
  }
}

template <Interpolation mode, class Acc>
AxisTaps<mode, Acc> chunk_taps(int32_t whole, Acc fraction, Padding padding, int64_t n) {
  return axis_taps<mode>(AxisSample<Acc>{whole, fraction}, padding, n);
}

// A channel of an image.
template <class T>
struct Channel {
  using Acc = typename Accumulate<T>::type;
  const RemapParams& p;
  const T* data;
  Acc fill;

  // The value of pixel i of a chunk, with any taps, strides and type.
  template <Interpolation mode>
  VISOPS_NOINLINE Acc value(const MapPositions<Acc>& positions, int i) const {
    const PixelTaps<mode, Acc> taps = {
        chunk_taps<mode>(positions.y[i], positions.below[i], p.padding, p.height),
        chunk_taps<mode>(positions.x[i], positions.right[i], p.padding, p.width)};
    return map_value(data, p.image_stride, taps, fill);
  }
};

// Samples of a chunk one by one, for any strides and types. Taps outside are read elsewhere.
template <Interpolation mode, class T, class Acc>
void sample_elements(const Channel<T>& channel, const MapPositions<Acc>& positions, int count,
                     Acc* values) {
  if (positions.outside_count == count) return;  // the plane may be smaller than the taps
  constexpr int kTaps = tap_count(mode), kFirst = first_tap(mode);
  const int64_t down = channel.p.image_stride.row, across = channel.p.image_stride.column;
  for (int i = 0; i < count; ++i) {
    const T* const first = channel.data + positions.offset[i] + kFirst * (down + across);
    Acc near[kTaps][kTaps];
    for (int y = 0; y < kTaps; ++y) {
      for (int x = 0; x < kTaps; ++x) near[y][x] = load_element(first + y * down + x * across);
    }
    if constexpr (mode == Interpolation::kNearest) {
      values[i] = near[0][0];
    } else {
      PixelTaps<mode, Acc> taps;
      taps.y.t = positions.below[i];
      taps.x.t = positions.right[i];
      tap_weights<mode>(taps.y.t, taps.y.weight);
      tap_weights<mode>(taps.x.t, taps.x.weight);
      values[i] = blend_taps<mode>(taps, near);
    }
  }
}

// Samples of those pixels of a chunk that have taps outside.
template <Interpolation mode, class T, class Acc>
void sample_outside(const Channel<T>& channel, const MapPositions<Acc>& positions, Acc* values) {
  for (int k = 0; k < positions.outside_count; ++k) {
    const int32_t i = positions.outside[k];
    values[i] = channel.template value<mode>(positions, i);
  }
}

// Samples of `Channels` adjacent channels, or of one in a plane, in vectors of pixels.
template <Interpolation mode, class T, int Channels>
void sample_vectors(const RemapParams& p, const T* data, const MapPositions<float>& positions,
                    int count, float (&values)[Channels][kChunk]) {
  constexpr int kFirst = first_tap(mode);
  const auto row_bytes = p.image_stride.row * static_cast<int64_t>(sizeof(T));
  const char* const first =
      reinterpret_cast<const char*>(data + kFirst * (p.image_stride.row + p.image_stride.column));
  int32_t bytes[kChunk];
  for (int i = 0; i < kChunk; ++i) {
    bytes[i] = positions.offset[i] * static_cast<int32_t>(sizeof(T));
  }
  for (int i = 0; i < count; i += Floats::kWidth) {
    Floats result[Channels];
    sample_pairs<T, Channels, mode>(first, row_bytes, bytes + i, positions.right + i,
                                    positions.below + i, result);
    for (int c = 0; c < Channels; ++c) result[c].store(values[c] + i);
  }
}

// Stores `Channels` channels of a chunk that lie side by side.
template <int Channels, class T>
void store_vectors(const float (&values)[Channels][kChunk], int count, T* to) {
  for (int i = 0; i < count; i += Floats::kWidth) {
    Floats own[Channels];
    for (int c = 0; c < Channels; ++c) own[c] = Floats::load(values[c] + i);
    if (count - i >= Floats::kWidth) {
      store_pixels(to + i * Channels, own);
      continue;
    }
    T rest[Floats::kWidth * Channels];
    store_pixels(rest, own);
    copy_part(to + i * Channels, rest, sizeof(T) * Channels * static_cast<size_t>(count - i));
  }
}

template <class T, class Acc>
void store_chunk(const RemapParams& p, const Acc* values, int count, T* to) {
  const int64_t step = p.output_stride.column;
  if (p.to_float) {
    const float scale = float_scale<T>();
    for (int i = 0; i < count; ++i) store_sample(p, to, i * step, values[i], scale);
  } else {
    for (int i = 0; i < count; ++i) store_element(to + i * step, values[i]);
  }
}

// each(sample, chunk, positions) of all rows, in tasks.
template <class Acc, class Each>
void for_chunks(const RemapParams& p, Workspace& workspace, const Each& each) {
  const RowMap<Acc> map(p, workspace);
  const int64_t grain = grain_of(8 * p.channels * p.output_width);
  parallel_for(workspace, p.batch * p.output_height, grain, [&](int64_t begin, int64_t end) {
    MapPositions<Acc> positions;
    Acc room_x[kChunk], room_y[kChunk];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sample = i / p.output_height, row = i % p.output_height;
      const MapMatrix<Acc> matrix = map_matrix<Acc>(p, sample);
      map.start_row(sample, row);
      for (int64_t first = 0; first < p.output_width; first += kChunk) {
        const int64_t left = p.output_width - first;
        const Chunk chunk = {row, first, left < kChunk ? static_cast<int>(left) : kChunk};
        const Acc* const map_x = map.numbers(sample, chunk, 0, room_x);
        const Acc* const map_y = map.numbers(sample, chunk, 1, room_y);
        find_positions(p, matrix, chunk, map_x, map_y, positions);
        each(sample, chunk, positions);
      }
    }
  });
}

int64_t output_offset(const RemapParams& p, int64_t sample, int64_t channel, const Chunk& chunk) {
  return sample * p.output_stride.batch + channel * p.output_stride.channel +
         chunk.row * p.output_stride.row + chunk.first * p.output_stride.column;
}

// The images' memory that a task reads in vectors, and how.
template <class T>
struct VectorReads {
  bool planes = false;        // columns are adjacent
  bool adjacent = false;      // three channels are
  const char* end = nullptr;  // of the memory

  explicit VectorReads(const RemapParams& p) {
    const Strides& s = p.image_stride;
    if (std::is_same<T, double>::value) return;
    const int64_t span = (p.height - 1) * s.row + (p.width - 1) * s.column;
    if ((span + 8) * static_cast<int64_t>(sizeof(T)) >= (int64_t{1} << 31)) return;
    end = end_of(p.image, s, p.batch, p.channels, p.height, p.width, sizeof(T));
    planes = s.column == 1;
    adjacent = sizeof(T) == 1 && p.channels == 3 && s.channel == 1 && s.column == 3 &&
               !p.to_float && p.output_stride.channel == 1 && p.output_stride.column == 3;
  }

  // Whether vectors stay within the memory: they read 8 bytes where the last taps begin.
  bool fits(const RemapParams& p, const T* data, int32_t highest) const {
    const int taps = tap_count(p.mode), before = first_tap(p.mode);
    const int64_t last = highest + (taps - 1 + before) * p.image_stride.row +
                         (taps - 2 + before) * p.image_stride.column;
    return end - reinterpret_cast<const char*>(data) >= last * static_cast<int64_t>(sizeof(T)) + 8;
  }
};

template <class T, Interpolation mode>
class Sampler {
 public:
  using Acc = typename Accumulate<T>::type;

  explicit Sampler(const RemapParams& p) : p_(p), reads_(p) {}

  void operator()(int64_t sample, const Chunk& chunk, const MapPositions<Acc>& positions) const {
    const T* const data = static_cast<const T*>(p_.image) + sample * p_.image_stride.batch;
    if constexpr (sizeof(T) == 1 && mode != Interpolation::kNearest) {
      if (reads_.adjacent && reads_.fits(p_, data, positions.highest)) {
        return sample_adjacent(data, sample, chunk, positions);
      }
    }
    for (int64_t c = 0; c < p_.channels; ++c) {
      const Channel<T> channel = channel_of(data, c);
      T* const to = target(sample, c, chunk);
      Acc values[1][kChunk];
      if constexpr (!std::is_same<T, double>::value && mode != Interpolation::kNearest) {
        if (reads_.planes && reads_.fits(p_, channel.data, positions.highest)) {
          sample_vectors<mode, T>(p_, channel.data, positions, chunk.count, values);
          sample_outside<mode>(channel, positions, values[0]);
          if (!p_.to_float && p_.output_stride.column == 1) {
            store_vectors(values, chunk.count, to);
          } else {
            store_chunk(p_, values[0], chunk.count, to);
          }
          continue;
        }
      }
      sample_elements<mode>(channel, positions, chunk.count, values[0]);
      sample_outside<mode>(channel, positions, values[0]);
      store_chunk(p_, values[0], chunk.count, to);
    }
  }

 private:
  Channel<T> channel_of(const T* data, int64_t channel) const {
    const T* const plane = data + channel * p_.image_stride.channel;
    return {p_, plane, static_cast<Acc>(remap_fill(p_, channel))};
  }

  T* target(int64_t sample, int64_t channel, const Chunk& chunk) const {
    const int64_t offset = output_offset(p_, sample, channel, chunk);
    if (p_.to_float) return reinterpret_cast<T*>(static_cast<float*>(p_.output) + offset);
    return static_cast<T*>(p_.output) + offset;
  }

  void sample_adjacent(const T* data, int64_t sample, const Chunk& chunk,
                       const MapPositions<Acc>& positions) const {
    float values[3][kChunk];
    sample_vectors<mode, T>(p_, data, positions, chunk.count, values);
    for (int c = 0; c < 3; ++c) sample_outside<mode>(channel_of(data, c), positions, values[c]);
    store_vectors(values, chunk.count, target(sample, 0, chunk));
  }

  const RemapParams& p_;
  const VectorReads<T> reads_;
};

template <class T>
void interpolate(const RemapParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  switch (p.mode) {
    case Interpolation::kNearest:
      return for_chunks<Acc>(p, workspace, Sampler<T, Interpolation::kNearest>(p));
    case Interpolation::kBilinear:
      return for_chunks<Acc>(p, workspace, Sampler<T, Interpolation::kBilinear>(p));
    default: for_chunks<Acc>(p, workspace, Sampler<T, Interpolation::kBicubic>(p));
  }
}

// Elements of a size, whatever they hold.
template <class Bits, class Acc>
void copy_nearest(const RemapParams& p, Workspace& workspace) {
  for_chunks<Acc>(
      p, workspace, [&](int64_t sample, const Chunk& chunk, const MapPositions<Acc>& positions) {
        for (int64_t c = 0; c < p.channels; ++c) {
          const Bits fill = element_from_bits<Bits>(fill_bits(p.dtype, remap_fill(p, c)));
          const Bits* const data = static_cast<const Bits*>(p.image) +
                                   sample * p.image_stride.batch + c * p.image_stride.channel;
          Bits* const to = static_cast<Bits*>(p.output) + output_offset(p, sample, c, chunk);
          const int64_t step = p.output_stride.column;
          int done = 0;
          for (; step == 1 && done + kCopiesAtOnce <= chunk.count; done += kCopiesAtOnce) {
            for (int i = done; i < done + kCopiesAtOnce; ++i) to[i] = data[positions.offset[i]];
          }
          for (int i = done; i < chunk.count; ++i) to[i * step] = data[positions.offset[i]];
          for (int k = 0; k < positions.outside_count; ++k) {
            const int32_t i = positions.outside[k];
            const int64_t x = pad_index(p.padding, positions.x[i], p.width);
            const int64_t y = pad_index(p.padding, positions.y[i], p.height);
            to[i * step] =
                x < 0 || y < 0 ? fill : data[y * p.image_stride.row + x * p.image_stride.column];
          }
        }
      });
}

void remap_kernel(const RemapParams& p, Workspace& workspace) {
  if (p.mode == Interpolation::kNearest && !p.to_float) {
    switch (element_size(p.dtype)) {
      case 1: return copy_nearest<uint8_t, float>(p, workspace);
      case 2: return copy_nearest<uint16_t, float>(p, workspace);
      case 4: return copy_nearest<uint32_t, float>(p, workspace);
      default:
        if (p.dtype == DType::kFloat64) return copy_nearest<uint64_t, double>(p, workspace);
        return copy_nearest<uint64_t, float>(p, workspace);
    }
  }
  with_element_type(p.dtype, [&](auto* element) {
    interpolate<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = remap_stub.set(kIsaSlot, remap_kernel);

}  // namespace
}  // namespace visops
