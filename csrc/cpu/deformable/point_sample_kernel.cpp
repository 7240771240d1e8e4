// NOTE [ Point samples on the CPU ]
// Maps come in three layouts. Planes with adjacent columns are sampled as NOTE [ Points in planes ]
// (cpu/deformable/point_sample_kernel.cpp) says: with few channels part by part of the points, with
// many plane by plane. Where channels are adjacent, each point's taps are read in vectors of
// channels, and taps outside point at zeros. Everything else, and float64, goes element by element.
// Work is split by image and points, or by plane; every sample is computed alone.
//
// Rounding: NOTE [ Point samples ] (core/deformable/points.h), without contraction. Assumes what
// the front checks.
#include <cstdint>
#include <cstring>

#include "core/numbers/element.h"
#include "cpu/deformable/point_positions.h"
#include "cpu/simd/floats.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

// Points of one image, read from plane after plane.
//
// NOTE [ Points in planes ]
// What a plane's samples need is computed once for all planes: where a point reads, and the
// weights of its rows and columns. Two adjacent pixels are one load of 8 bytes, and a vector of
// points is interpolated at once. Points that can't be read so (a tap outside the map, or the 8
// bytes end behind it) are few; they are listed, and done one by one afterwards. For many planes,
// points are sorted by where they read, so that memory is read in its order and every cache line
// once.

constexpr int64_t kPairBytes = 8;
constexpr int64_t kPaddedPoints = 64;  // room for a vector behind the last point

struct EdgePoint {
  int64_t target;  // among the image's points
  int64_t first;   // elements from the plane to tap 00
  int32_t taps;
  TapWeights<float> weights;
};

// What is computed of each point, beside its offset: the weights of its rows and columns.
enum { kAbove, kBelow, kLeft, kRight, kPointWeights };

// Arrays of `count` points and kPaddedPoints more.
struct PlanePoints {
  int64_t count = 0, edge_count = 0;
  int32_t* offset;  // bytes from the plane to the tap 00
  float* weight[kPointWeights];
  int32_t* target;   // among the image's points
  EdgePoint* edges;  // room for `count`
};

// The last element where what is read of a point may begin: 8 bytes of two rows, or an element.
template <class T>
inline int64_t last_plane_offset(const PointsParams& p) {
  const bool is_nearest = p.mode == PointMode::kNearest;
  const int64_t size = static_cast<int64_t>(sizeof(T)), bytes = is_nearest ? size : kPairBytes;
  const int64_t below = is_nearest ? 0 : p.row_stride;
  return (p.height - 1) * p.row_stride + p.width - (bytes + size - 1) / size - below;
}

// Whether a plane's points can be read so: rows are adjacent, offsets fit, and there is something
// to read at offset 0, for points that are read otherwise.
template <class T>
inline bool has_plane_offsets(const PointsParams& p) {
  const int64_t most = INT32_MAX / static_cast<int64_t>(sizeof(T));
  return p.column_stride == 1 && p.width >= 2 && p.row_stride <= most / p.height &&
         p.width <= most - (p.height - 1) * p.row_stride && last_plane_offset<T>(p) >= 0 &&
         p.points < INT32_MAX - kPaddedPoints;
}

// Adds placed points, in order.
template <class T>
void add_points(const PointsParams& p, const LocatedPoints<float>& located, PlanePoints* s) {
  const int64_t row = p.row_stride, count = located.count;
  const auto last = static_cast<int32_t>(last_plane_offset<T>(p)), step = static_cast<int32_t>(row);
  const int32_t wanted = p.mode == PointMode::kNearest ? kTap00 : kAllTaps;
  int32_t* VISOPS_RESTRICT offset = s->offset + s->count;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t first = located.y.first[i] * step + located.x.first[i];
    const bool is_inner = (located.taps[i] == wanted) & (first <= last);
    offset[i] = is_inner ? first * static_cast<int32_t>(sizeof(T)) : -1;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (offset[i] >= 0) continue;
    offset[i] = 0;
    s->edges[s->edge_count++] = {located.first + i, first_tap_of(located, i, row, 1),
                                 located.taps[i], tap_weights(located, i)};
  }
  const float* const weight[] = {located.y.before, located.y.after, located.x.before,
                                 located.x.after};
  for (int k = 0; k < kPointWeights; ++k) {
    memcpy(s->weight[k] + s->count, weight[k], static_cast<size_t>(count) * sizeof(float));
  }
  s->count += count;
}

// Makes the vector behind the last point harmless.
inline void end_points(PlanePoints* s) {
  for (int64_t i = s->count; i < s->count + kPaddedPoints; ++i) {
    s->offset[i] = 0;
    for (int k = 0; k < kPointWeights; ++k) s->weight[k][i] = 0.0f;
  }
}

// The arrays that points are computed in, on the stack.
struct PointRoom {
  int32_t offset[kPointsAtOnce + kPaddedPoints];
  float weight[kPointWeights][kPointsAtOnce + kPaddedPoints];
  EdgePoint edges[kPointsAtOnce];

  PlanePoints empty() {
    PlanePoints points = {};
    points.offset = offset;
    for (int k = 0; k < kPointWeights; ++k) points.weight[k] = weight[k];
    points.edges = edges;
    return points;
  }
};

inline PlanePoints allocate_points(Workspace& workspace, int64_t count) {
  PlanePoints points = {};
  const int64_t room = count + kPaddedPoints;
  points.offset = allocate<int32_t>(workspace, room);
  for (int k = 0; k < kPointWeights; ++k) points.weight[k] = allocate<float>(workspace, room);
  points.target = allocate<int32_t>(workspace, room);
  points.edges = allocate<EdgePoint>(workspace, count);
  return points;
}

// Sorts by offset, to a few cache lines; equal ones by index. `bins` has kSortBins + 1 numbers.
constexpr int64_t kSortBins = 4096;

inline void sort_points(const PlanePoints& from, int64_t plane_bytes, int64_t* bins,
                        PlanePoints* VISOPS_RESTRICT to) {
  int shift = 0;
  while ((plane_bytes >> shift) >= kSortBins) ++shift;
  memset(bins, 0, (kSortBins + 1) * sizeof(int64_t));
  for (int64_t i = 0; i < from.count; ++i) ++bins[(from.offset[i] >> shift) + 1];
  for (int64_t b = 0; b < kSortBins; ++b) bins[b + 1] += bins[b];
  for (int64_t i = 0; i < from.count; ++i) {
    const int64_t at = bins[from.offset[i] >> shift]++;
    to->offset[at] = from.offset[i];
    to->target[at] = static_cast<int32_t>(i);
    for (int k = 0; k < kPointWeights; ++k) to->weight[k][at] = from.weight[k][i];
  }
  to->count = from.count;
  to->edges = from.edges;
  to->edge_count = from.edge_count;
}

// Points to come, sorted, are brought into the caches: a plane that is not there yet would be
// waited for line by line. There are kPaddedPoints offsets behind the last.
constexpr int64_t kPointsAhead = 48;
static_assert(kPointsAhead + Floats::kWidth <= kPaddedPoints, "reads no offset behind the room");

VISOPS_ALWAYS_INLINE void prefetch_pairs([[maybe_unused]] const char* const (&rows)[2],
                                         [[maybe_unused]] const int32_t* offset) {
  for (int k = 0; k < Floats::kWidth; ++k) {
    __builtin_prefetch(rows[0] + offset[k]);
    __builtin_prefetch(rows[1] + offset[k]);
  }
}

// Reads one byte of every cache line of a plane, in the order of memory: NOTE [ Read ahead ]
// (cpu/prefetch.h).
inline void read_plane_ahead(const void* plane, int64_t bytes) {
  const auto* from = static_cast<const volatile uint8_t*>(plane);
  for (int64_t b = 0; b < bytes; b += 64) static_cast<void>(from[b]);
}

template <class T>
VISOPS_ALWAYS_INLINE Floats sample_pairs(const char* const (&rows)[2], const PlanePoints& s,
                                         int64_t i) {
  PixelPairs pairs[2];
  load_pairs(rows, s.offset + i, pairs);
  const FloatPairs top = channel_pairs<T, 1, 0>(pairs[0]);
  const FloatPairs bottom = channel_pairs<T, 1, 0>(pairs[1]);
  const auto weight = [&](int k) { return Floats::load(s.weight[k] + i); };
  const Floats above = weight(kAbove), below = weight(kBelow);
  const Floats left = weight(kLeft), right = weight(kRight);
  return ((above * left) * first_of_pairs(top) + (above * right) * second_of_pairs(top)) +
         ((below * left) * first_of_pairs(bottom) + (below * right) * second_of_pairs(bottom));
}

template <class T>
VISOPS_ALWAYS_INLINE float sample_edge(const PointsParams& p, const EdgePoint& s, const T* plane) {
  const T* at = plane + s.first;
  const T* below = at + p.row_stride;
  return (s.weights.w00 * tap_value(at, s.taps, kTap00) +
          s.weights.w01 * tap_value(at + 1, s.taps, kTap01)) +
         (s.weights.w10 * tap_value(below, s.taps, kTap10) +
          s.weights.w11 * tap_value(below + 1, s.taps, kTap11));
}

// Samples a plane to `out`; `to(i)` is where point i's sample belongs if points are sorted.
template <class T, bool is_sorted, class Out>
void sample_plane(const PointsParams& p, const PlanePoints& s, const T* plane, int64_t first,
                  Out* VISOPS_RESTRICT out) {
  if (p.mode == PointMode::kNearest) {
    const char* bytes = reinterpret_cast<const char*>(plane);
    for (int64_t i = 0; i < s.count; ++i) {
      const T* at = reinterpret_cast<const T*>(bytes + s.offset[i]);
      // Plus 0, as the sum for "bilinear": a negative zero becomes positive.
      store_element(out + (is_sorted ? s.target[i] : first + i), load_element(at) + 0.0f);
    }
  } else {
    constexpr int kWidth = Floats::kWidth;
    const char* top = reinterpret_cast<const char*>(plane);
    const char* const rows[2] = {top, reinterpret_cast<const char*>(plane + p.row_stride)};
    for (int64_t i = 0; i < s.count; i += kWidth) {
      if (is_sorted) prefetch_pairs(rows, s.offset + i + kPointsAhead);
      const Floats samples[1] = {sample_pairs<T>(rows, s, i)};
      const int64_t left = s.count - i < kWidth ? s.count - i : kWidth;
      if (!is_sorted && left == kWidth) {
        store_pixels(out + first + i, samples);
        continue;
      }
      Out part[kWidth];
      store_pixels(part, samples);
      for (int64_t k = 0; k < left; ++k) {
        out[is_sorted ? s.target[i + k] : first + i + k] = part[k];
      }
    }
  }
  for (int64_t e = 0; e < s.edge_count; ++e) {
    store_element(out + s.edges[e].target, sample_edge(p, s.edges[e], plane));
  }
}

// With fewer channels, sorting points takes longer than what it gains.
constexpr int64_t kManyChannels = 8;

template <class T>
const T* plane_of(const PointsParams& p, int64_t image, int64_t channel) {
  return static_cast<const T*>(p.input) + image * p.batch_stride + channel * p.channel_stride;
}

template <class T>
SampleOf<T>* output_of(const PointsParams& p, int64_t image, int64_t channel) {
  return static_cast<SampleOf<T>*>(p.output) + image * p.channels * p.points +
         channel * p.output_channel_stride;
}

template <class T>
int64_t plane_bytes(const PointsParams& p) {
  return ((p.height - 1) * p.row_stride + p.width) * static_cast<int64_t>(sizeof(T));
}

template <class T>
void sample_parts(const PointsParams& p, Workspace& workspace) {
  const int64_t bytes = plane_bytes<T>(p);
  const auto sample = [&](int64_t image, int64_t first, int64_t last) {
    PointRoom room;
    if (4 * (last - first) * kPairBytes >= bytes) {  // most lines are needed
      for (int64_t c = 0; c < p.channels; ++c) read_plane_ahead(plane_of<T>(p, image, c), bytes);
    }
    for_points<float>(p, image, first, last, [&](const LocatedPoints<float>& located) {
      PlanePoints points = room.empty();
      add_points<T>(p, located, &points);
      end_points(&points);
      for (int64_t c = 0; c < p.channels; ++c) {
        sample_plane<T, false>(p, points, plane_of<T>(p, image, c), located.first,
                               output_of<T>(p, image, c));
      }
    });
  };
  parallel_for(workspace, p.batch * p.points, point_grain(p),
               [&](int64_t begin, int64_t end) { for_images(p, begin, end, sample); });
}

template <class T>
void sample_planes(const PointsParams& p, Workspace& workspace) {
  PlanePoints located = allocate_points(workspace, p.points);
  PlanePoints sorted = allocate_points(workspace, p.points);
  int64_t* bins = allocate<int64_t>(workspace, kSortBins + 1);
  for (int64_t image = 0; image < p.batch; ++image) {
    located.count = located.edge_count = 0;
    for_points<float>(p, image, 0, p.points, [&](const LocatedPoints<float>& points) {
      add_points<T>(p, points, &located);
    });
    sort_points(located, plane_bytes<T>(p), bins, &sorted);
    end_points(&sorted);
    parallel_for(workspace, p.channels, grain_of(4 * p.points), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        sample_plane<T, true>(p, sorted, plane_of<T>(p, image, c), 0, output_of<T>(p, image, c));
      }
    });
  }
}

// Channels are adjacent in the map and in the output.
template <class T>
class AdjacentChannels {
 public:
  using Acc = typename Accumulate<T>::type;

  AdjacentChannels(const PointsParams& p, Workspace& workspace) : p_(p) {
    const int64_t bytes = p.channels * static_cast<int64_t>(sizeof(T));
    void* zeros = workspace.allocate(bytes);
    memset(zeros, 0, static_cast<size_t>(bytes));
    zeros_ = static_cast<const T*>(zeros);
  }

  void sample(int64_t image, const LocatedPoints<Acc>& s) const {
    const T* map = plane_of<T>(p_, image, 0);
    SampleOf<T>* out = output_of<T>(p_, image, 0) + s.first * p_.output_point_stride;
    for (int64_t i = 0; i < s.count; ++i, out += p_.output_point_stride) {
      const T* tap[4];
      const T* first = map + first_tap_of(s, i, p_.row_stride, p_.column_stride);
      tap[0] = (s.taps[i] & kTap00) != 0 ? first : zeros_;
      tap[1] = (s.taps[i] & kTap01) != 0 ? first + p_.column_stride : zeros_;
      tap[2] = (s.taps[i] & kTap10) != 0 ? first + p_.row_stride : zeros_;
      tap[3] = (s.taps[i] & kTap11) != 0 ? first + p_.row_stride + p_.column_stride : zeros_;
      sample_point(tap, tap_weights(s, i), out);
    }
  }

 private:
  VISOPS_ALWAYS_INLINE void sample_point(const T* const (&tap)[4], const TapWeights<Acc>& w,
                                         SampleOf<T>* VISOPS_RESTRICT out) const {
    constexpr int kCount = kPartCount<Acc>;
    int64_t c = for_parts<Acc>(p_.channels, [&](auto parts, int64_t channel) {
      for (int n = 0; n < parts; ++n) {
        const int64_t at = channel + n * kCount;
        const Part<Acc> top =
            repeated(w.w00) * load_part(tap[0] + at) + repeated(w.w01) * load_part(tap[1] + at);
        const Part<Acc> bottom =
            repeated(w.w10) * load_part(tap[2] + at) + repeated(w.w11) * load_part(tap[3] + at);
        store_part(out + at, top + bottom);
      }
    });
    for (; c < p_.channels; ++c) {
      const Acc top = w.w00 * load_element(tap[0] + c) + w.w01 * load_element(tap[1] + c);
      const Acc bottom = w.w10 * load_element(tap[2] + c) + w.w11 * load_element(tap[3] + c);
      store_element(out + c, top + bottom);
    }
  }

  const PointsParams& p_;
  const T* zeros_;
};

template <class T, class Acc>
void sample_elements(const PointsParams& p, int64_t image, const LocatedPoints<Acc>& s) {
  for (int64_t c = 0; c < p.channels; ++c) {
    const T* plane = plane_of<T>(p, image, c);
    SampleOf<T>* out = output_of<T>(p, image, c) + s.first * p.output_point_stride;
    for (int64_t i = 0; i < s.count; ++i) {
      const TapWeights<Acc> w = tap_weights(s, i);
      const T* at = plane + first_tap_of(s, i, p.row_stride, p.column_stride);
      const T* below = at + p.row_stride;
      const int32_t taps = s.taps[i];
      const Acc top = w.w00 * tap_value(at, taps, kTap00) +
                      w.w01 * tap_value(at + p.column_stride, taps, kTap01);
      const Acc bottom = w.w10 * tap_value(below, taps, kTap10) +
                         w.w11 * tap_value(below + p.column_stride, taps, kTap11);
      store_element(out + i * p.output_point_stride, top + bottom);
    }
  }
}

template <class T>
void sample_strided(const PointsParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const AdjacentChannels<T> adjacent(p, workspace);
  const bool is_adjacent = p.channel_stride == 1 && p.output_channel_stride == 1 && p.channels > 1;
  const auto sample = [&](int64_t image, int64_t first, int64_t last) {
    for_points<Acc>(p, image, first, last, [&](const LocatedPoints<Acc>& located) {
      if (is_adjacent) return adjacent.sample(image, located);
      sample_elements<T>(p, image, located);
    });
  };
  parallel_for(workspace, p.batch * p.points, point_grain(p),
               [&](int64_t begin, int64_t end) { for_images(p, begin, end, sample); });
}

template <class T>
void sample_points(const PointsParams& p, Workspace& workspace) {
  if constexpr (!std::is_same<T, double>::value) {
    if (has_plane_offsets<T>(p) && p.output_point_stride == 1) {
      if (p.channels < kManyChannels) return sample_parts<T>(p, workspace);
      return sample_planes<T>(p, workspace);
    }
  }
  sample_strided<T>(p, workspace);
}

void point_sample_kernel(const PointsParams& p, Workspace& workspace) {
  with_map_type(p.dtype, [&](auto* element) {
    sample_points<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = point_sample_stub.set(kIsaSlot, point_sample_kernel);

}  // namespace
}  // namespace visops
