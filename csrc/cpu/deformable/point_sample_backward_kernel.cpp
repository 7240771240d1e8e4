// NOTE [ Gradients of point samples on the CPU ]
// Map: a task owns some planes, or some rows of them where there are more threads than planes, and
// adds the points to them in order. So sums are those of NOTE [ Gradients of point samples ]
// (core/deformable/points.h), however the work is divided, without atomics and without lists.
// Points: each is computed alone. A part of an image's points goes through the channels together,
// so that maps of any layout are read in lines.
//
// Rounding: without contraction. Assumes what the front checks.
#include "cpu/deformable/point_positions.h"

namespace visops {
namespace {

// Rows [first, last) of a plane.
struct Band {
  int64_t first, last;
};

template <class Acc>
void drop_other_rows(const Band& band, LocatedPoints<Acc>* s) {
  for (int64_t i = 0; i < s->count; ++i) {
    const int64_t y = s->y.first[i];
    if (y < band.first || y >= band.last) s->taps[i] &= kTap10 | kTap11;
    if (y + 1 < band.first || y + 1 >= band.last) s->taps[i] &= kTap00 | kTap01;
  }
}

template <class T, class Acc>
void add_gradients(const PointsParams& p, const LocatedPoints<Acc>& s, const T* grad, Acc* plane) {
  for (int64_t i = 0; i < s.count; ++i) {
    const int32_t taps = s.taps[i];
    if (taps == 0) continue;
    const Acc g = load_element(grad + i);
    const TapWeights<Acc> w = tap_weights(s, i);
    Acc* at = plane + first_tap_of(s, i, p.width, 1);
    Acc* below = at + p.width;
    if (taps == kAllTaps) {
      at[0] += w.w00 * g;
      at[1] += w.w01 * g;
      below[0] += w.w10 * g;
      below[1] += w.w11 * g;
      continue;
    }
    if ((taps & kTap00) != 0) at[0] += w.w00 * g;
    if ((taps & kTap01) != 0) at[1] += w.w01 * g;
    if ((taps & kTap10) != 0) below[0] += w.w10 * g;
    if ((taps & kTap11) != 0) below[1] += w.w11 * g;
  }
}

// Planes together take as long as one does alone, and share the places of points.
constexpr int64_t kPlanesAtOnce = 8;

template <class T>
void backward_input(const PointsParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const int64_t groups = (p.channels + kPlanesAtOnce - 1) / kPlanesAtOnce;
  const int64_t wanted = workspace.threads() > 1 ? 2 * workspace.threads() : 1;
  const int64_t items = p.batch * groups;
  const int64_t most = items >= wanted ? 1 : (wanted + items - 1) / items;
  const int64_t bands = most < p.height ? most : p.height, area = p.height * p.width;
  const auto add = [&](int64_t image, int64_t group, const Band& band) {
    const int64_t first = group * kPlanesAtOnce, after = first + kPlanesAtOnce;
    const int64_t last = after < p.channels ? after : p.channels;
    Acc* planes = static_cast<Acc*>(p.grad_input) + image * p.channels * area;
    const T* grads = static_cast<const T*>(p.grad) + image * p.channels * p.points;
    for (int64_t c = first; c < last; ++c) {
      memset(planes + c * area + band.first * p.width, 0,
             static_cast<size_t>((band.last - band.first) * p.width) * sizeof(Acc));
    }
    for_points<Acc>(p, image, 0, p.points, [&](LocatedPoints<Acc>& located) {
      if (bands > 1) drop_other_rows(band, &located);
      for (int64_t c = first; c < last; ++c) {
        add_gradients(p, located, grads + c * p.points + located.first, planes + c * area);
      }
    });
  };
  const int64_t cost = (4 * p.points + area) * kPlanesAtOnce / bands;
  parallel_for(workspace, items * bands, grain_of(cost), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t item = i / bands, band = i % bands;
      add(item / groups, item % groups, {p.height * band / bands, p.height * (band + 1) / bands});
    }
  });
}

// Adds a channel's part of each point's slope along x and y.
template <class T, class G, class Acc>
void add_slopes(const PointsParams& p, const LocatedPoints<Acc>& s, const T* plane, const G* grad,
                Acc* VISOPS_RESTRICT along_x, Acc* VISOPS_RESTRICT along_y) {
  const Acc one = static_cast<Acc>(1);
  for (int64_t i = 0; i < s.count; ++i) {
    const int32_t taps = s.taps[i];
    if (taps == 0) continue;
    const T* at = plane + first_tap_of(s, i, p.row_stride, p.column_stride);
    const T* below = at + p.row_stride;
    const Acc v00 = tap_value(at, taps, kTap00);
    const Acc v01 = tap_value(at + p.column_stride, taps, kTap01);
    const Acc v10 = tap_value(below, taps, kTap10);
    const Acc v11 = tap_value(below + p.column_stride, taps, kTap11);
    const Acc g = load_element(grad + i);
    const Acc fx = s.x.fraction[i], fy = s.y.fraction[i];
    along_x[i] += g * ((one - fy) * (v01 - v00) + fy * (v11 - v10));
    along_y[i] += g * ((one - fx) * (v10 - v00) + fx * (v11 - v01));
  }
}

template <class T>
void backward_points(const PointsParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  using G = SampleOf<T>;
  const auto differentiate = [&](int64_t image, const LocatedPoints<Acc>& s) {
    Acc along_x[kPointsAtOnce] = {}, along_y[kPointsAtOnce] = {}, slopes[2 * kPointsAtOnce];
    const T* map = static_cast<const T*>(p.input) + image * p.batch_stride;
    const G* grad = static_cast<const G*>(p.grad) + image * p.channels * p.points + s.first;
    for (int64_t c = 0; c < p.channels; ++c) {
      add_slopes(p, s, map + c * p.channel_stride, grad + c * p.points, along_x, along_y);
    }
    for (int64_t i = 0; i < s.count; ++i) {
      slopes[2 * i] = along_x[i] * s.x.slope[i];
      slopes[2 * i + 1] = along_y[i] * s.y.slope[i];
    }
    write_numbers(slopes, 2 * s.count, p.grad_coordinates, p.coordinates_dtype,
                  2 * (image * p.points + s.first));
  };
  const auto compute = [&](int64_t image, int64_t first, int64_t last) {
    for_points<Acc>(p, image, first, last,
                    [&](const LocatedPoints<Acc>& located) { differentiate(image, located); });
  };
  parallel_for(workspace, p.batch * p.points, point_grain(p),
               [&](int64_t begin, int64_t end) { for_images(p, begin, end, compute); });
}

void backward_input_kernel(const PointsParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    backward_input<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

void backward_points_kernel(const PointsParams& p, Workspace& workspace) {
  with_map_type(p.dtype, [&](auto* element) {
    backward_points<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered_input = point_sample_backward_input_stub.set(kIsaSlot, backward_input_kernel);
const bool registered_points =
    point_sample_backward_points_stub.set(kIsaSlot, backward_points_kernel);

}  // namespace
}  // namespace visops
