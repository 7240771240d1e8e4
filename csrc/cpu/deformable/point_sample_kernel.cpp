// NOTE [ Point samples on the CPU ]
// Maps come in three layouts. Planes with adjacent columns are sampled as NOTE [ Points in planes ]
// (cpu/deformable/point_planes.h) says: with few channels part by part of the points, with many
// plane by plane. Where channels are adjacent, each point's taps are read in vectors of channels,
// and taps outside point at zeros. Everything else, and float64, goes element by element. Work is
// split by image and points, or by plane; every sample is computed alone.
//
// Rounding: NOTE [ Point samples ] (core/deformable/points.h), without contraction. Assumes what
// the front checks.
#include "cpu/deformable/point_planes.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

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
