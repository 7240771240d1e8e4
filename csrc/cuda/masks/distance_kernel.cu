// Distance transforms on CUDA.
//
// NOTE [ Distances on CUDA ]
// Strategy: NOTE [ Distances ]. A thread has a pixel in each pass, and looks 1, 2, ... steps away
// along the axis until no candidate can be better. Threads of a warp have adjacent columns, so they
// read adjacent pixels whatever the axis. A pass takes time in proportion to the distances.
//
// Split: threads stride over pixels. A pass writes what the next one reads.
//
// Assumes what check_distance() established: squares don't overflow.
#include "core/masks/distance.h"
#include "core/workspace.h"
#include "cuda/masks/threads.h"

namespace visops {
namespace {

// What a pass knows of each pixel: the distance so far, and its site if sites are wanted.
template <class T>
struct Field {
  T* near;
  int32_t* sites;
};

// Pixels of an axis: `stride` apart.
struct Axis {
  int64_t size, stride;
};

template <Metric kMetric, class T, bool kSites>
__global__ void __launch_bounds__(kThreads)
    column_pass(const __grid_constant__ DistanceParams p, const Field<T> to) {
  const int64_t pixels = pixels_of(p), all = p.count * pixels;
  const T spacing = spacing_of(p, 1, T());
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    const int64_t y = at / p.width % p.height;
    T near = far_of(T());
    int64_t site = -1;
    // If two sites are as far away, the one above comes first.
    for (int64_t k = 0; site < 0 && (k <= y || y + k < p.height); ++k) {
      if (k <= y && p.masks[at - k * p.width] == 0) {
        site = at - k * p.width;
      } else if (y + k < p.height && p.masks[at + k * p.width] == 0) {
        site = at + k * p.width;
      }
      if (site >= 0) near = step_of(kMetric, static_cast<int32_t>(k), spacing);
    }
    to.near[at] = near;
    if (kSites) to.sites[at] = site < 0 ? -1 : static_cast<int32_t>(site % pixels);
  }
}

template <Metric kMetric, class T, bool kSites>
__global__ void __launch_bounds__(kThreads)
    line_pass(const __grid_constant__ DistanceParams p, const Axis axis, const T spacing,
              const Field<T> from, const Field<T> to) {
  const int64_t all = p.count * pixels_of(p);
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    const int64_t place = at / axis.stride % axis.size;
    T best = from.near[at];
    int32_t site = kSites ? from.sites[at] : 0;
    for (int64_t k = 1; k <= place || place + k < axis.size; ++k) {
      const T step = step_of(kMetric, static_cast<int32_t>(k), spacing);
      if (step > best || (!kSites && step == best)) break;
      for (int side = 0; side < 2; ++side) {
        if (side == 0 ? k > place : place + k >= axis.size) continue;
        const int64_t other = at + (side == 0 ? -k : k) * axis.stride;
        const T found = distance_through(kMetric, from.near[other], step);
        if (found > best) continue;
        const int32_t their_site = kSites ? from.sites[other] : 0;
        if (kSites && found == best && their_site >= site) continue;
        best = found;
        site = their_site;
      }
    }
    to.near[at] = best;
    if (kSites) to.sites[at] = site;
  }
}

template <Metric kMetric, class T, bool kSites>
__global__ void __launch_bounds__(kThreads)
    finish_pass(const __grid_constant__ DistanceParams p, const Field<T> from) {
  const int64_t pixels = pixels_of(p), all = p.count * pixels;
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    const float distance = final_distance(kMetric, from.near[at]);
    p.distances[at] = distance;
    const int64_t mask = at / pixels, pixel = at - mask * pixels;
    if (kSites) {
      store_index(p, mask, pixel, from.sites[at]);
    } else if (kMetric == Metric::kChessboard && p.indices != nullptr) {
      const int32_t site = site_on_shell(p, p.masks + mask * pixels, pixel, distance);
      store_index(p, mask, pixel, site);
    }
  }
}

template <Metric kMetric, class T, bool kSites>
void transform(const DistanceParams& p, Workspace& workspace) {
  const int64_t all = p.count * pixels_of(p);
  const auto make = [&] {
    T* near = allocate<T>(workspace, all);
    return Field<T>{near, kSites ? allocate<int32_t>(workspace, all) : nullptr};
  };
  Field<T> from = make(), to = make();
  const dim3 grid = grid_of_threads(all), threads(kThreads);
  void* stream = workspace.stream();
  launch(column_pass<kMetric, T, kSites>, grid, threads, 0, stream, p, from);
  const Axis axes[3] = {{p.depth, p.height * p.width}, {p.height, p.width}, {p.width, 1}};
  for (const int axis : {0, 2}) {
    if (axes[axis].size == 1) continue;
    launch(line_pass<kMetric, T, kSites>, grid, threads, 0, stream, p, axes[axis],
           spacing_of(p, axis, T()), from, to);
    const Field<T> done = to;
    to = from;
    from = done;
  }
  launch(finish_pass<kMetric, T, kSites>, grid, threads, 0, stream, p, from);
}

void distance_cuda(const DistanceParams& p, Workspace& workspace) {
  with_distance_types(p, [&](auto metric, auto zero, auto sites) {
    transform<metric, decltype(zero), sites>(p, workspace);
  });
}

const bool registered = distance_stub.set(kCudaSlot, distance_cuda);

}  // namespace
}  // namespace visops
