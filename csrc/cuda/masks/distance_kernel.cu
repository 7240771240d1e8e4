// Distance transforms on CUDA.
//
// NOTE [ Distances on CUDA ]
// Strategy: NOTE [ Distances ]. In each pass a thread has a pixel, and looks 1, 2, ... steps away
// along the axis until no candidate can be better. Threads of a warp have adjacent columns, so they
// read adjacent pixels whatever the axis. A pixel that has found no end after kMostSteps leaves its
// line to a second kernel, where a thread solves a whole line (NOTE [ Lines ]), so that time grows
// with the pixels alone. That kernel is all there is for squares of 64 bits. A thread of it takes
// time in proportion to its line.
//
// The chessboard's sites are looked up at the end (NOTE [ Sites of the chessboard ]). For them,
// passes go along rows first, and their results are kept.
//
// Split: threads stride over pixels or lines. A pass writes what the next one reads.
//
// Assumes what check_distance() established: squares don't overflow.
#include "core/dispatch/workspace.h"
#include "core/masks/distance.h"
#include "cuda/threads.h"

namespace visops {
namespace {

// Steps that a pixel takes before its line is solved; few in tests, which see both ways.
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int64_t kMostSteps = 6;
#else
constexpr int64_t kMostSteps = 64;
#endif

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

// What a pass reads: the masks if it is the first, else what the one before wrote.
template <class T, bool kFirst>
struct Source {
  const uint8_t* masks;
  int64_t pixels;  // of a mask
  Field<T> from;

  __device__ T near(int64_t at) const {
    if constexpr (kFirst) return masks[at] == 0 ? static_cast<T>(0) : far_of(T());
    return from.near[at];
  }
  __device__ int32_t site(int64_t at) const {
    if constexpr (kFirst) return masks[at] == 0 ? static_cast<int32_t>(at % pixels) : -1;
    return from.sites[at];
  }
};

// One line of it.
template <class T, bool kFirst>
struct SourceLine {
  Source<T, kFirst> source;
  int64_t first, stride;

  __device__ T near(int32_t x) const { return source.near(first + x * stride); }
  __device__ int32_t site(int32_t x) const { return source.site(first + x * stride); }
};

// Two numbers for each of its pixels.
struct LineRoom {
  int32_t* numbers;
  int64_t all, stride;

  __device__ int32_t& first(int32_t x) const { return numbers[x * stride]; }
  __device__ int32_t& second(int32_t x) const { return numbers[all + x * stride]; }
};

__global__ void __launch_bounds__(kThreads) clear_lines(int32_t* far_lines, const int64_t count) {
  for (int64_t i = first_thread(); i < count; i += all_threads()) far_lines[i] = 0;
}

// Sets far_lines where a line is to be solved; its pixels are written by both kernels then.
template <Metric kMetric, bool kSites, bool kFirst>
__global__ void __launch_bounds__(kThreads)
    search_lines(const Source<int32_t, kFirst> source, const Axis axis, const int64_t all,
                 const Field<int32_t> to, int32_t* far_lines) {
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    const int64_t across = at / axis.stride, outer = across / axis.size;
    const int64_t position = across - outer * axis.size;
    int32_t best = source.near(at);
    int32_t site = kSites ? source.site(at) : 0;
    bool is_open = true;
    for (int64_t k = 1; k <= kMostSteps; ++k) {
      const int32_t step = step_of(kMetric, static_cast<int32_t>(k), int32_t{1});
      is_open =
          (k <= position || position + k < axis.size) && (kSites ? step <= best : step < best);
      if (!is_open) break;
      for (int side = 0; side < 2; ++side) {
        if (side == 0 ? k > position : position + k >= axis.size) continue;
        const int64_t other = at + (side == 0 ? -k : k) * axis.stride;
        const int32_t found = distance_through(kMetric, source.near(other), step);
        if (found > best) continue;
        const int32_t their_site = kSites ? source.site(other) : 0;
        if (kSites && found == best && their_site >= site) continue;
        best = found;
        site = their_site;
      }
    }
    to.near[at] = best < kFar ? best : kFar;
    if (kSites) to.sites[at] = site;
    if (is_open) atomicOr(&far_lines[outer * axis.stride + at - across * axis.stride], 1);
  }
}

// `room` has two numbers of each pixel. far_lines: those to solve; null: all.
template <Metric kMetric, class T, bool kSites, bool kFirst>
__global__ void __launch_bounds__(kThreads)
    solve_lines(const Source<T, kFirst> source, const Axis axis, const int64_t all, const T spacing,
                const Field<T> to, int32_t* room, const int32_t* far_lines) {
  for (int64_t line = first_thread(); line < all / axis.size; line += all_threads()) {
    if (far_lines != nullptr && far_lines[line] == 0) continue;
    const int64_t outer = line / axis.stride;
    const int64_t first = line + outer * (axis.size - 1) * axis.stride;
    const SourceLine<T, kFirst> pixels = {source, first, axis.stride};
    solve_line<kMetric, T, kSites>(pixels, axis.size, spacing,
                                   LineRoom{room + first, all, axis.stride},
                                   [&](int32_t x, T near, int32_t site) {
                                     to.near[first + x * axis.stride] = near;
                                     if (kSites) to.sites[first + x * axis.stride] = site;
                                   });
  }
}

template <Metric kMetric, class T, bool kSites>
__global__ void __launch_bounds__(kThreads)
    finish_pass(const __grid_constant__ DistanceParams p, const Field<T> from) {
  const int64_t pixels = pixels_of(p), all = p.count * pixels;
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    p.distances[at] = final_distance(p, kMetric, from.near[at]);
    const int64_t mask = at / pixels;
    if (kSites) store_index(p, mask, at - mask * pixels, from.sites[at]);
  }
}

// Fills a level of a tree of distances.
__global__ void __launch_bounds__(kThreads)
    fill_level(const __grid_constant__ LeastTree tree, const int level, const int64_t count,
               int32_t* least) {
  for (int64_t i = first_thread(); i < count; i += all_threads()) {
    const int64_t position = i / tree.inner;
    least[i] = least_of_children(tree, level - 1, position, i - position * tree.inner);
  }
}

__global__ void __launch_bounds__(kThreads)
    find_sites(const __grid_constant__ DistanceParams p,
               const __grid_constant__ ChessboardTrees trees) {
  const int64_t pixels = pixels_of(p), all = p.count * pixels;
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    const int64_t mask = at / pixels, pixel = at - mask * pixels;
    const int64_t row = pixel / p.width, plane = row / p.height;
    const Position position = {static_cast<int32_t>(plane),
                               static_cast<int32_t>(row - plane * p.height),
                               static_cast<int32_t>(pixel - row * p.width)};
    store_index(p, mask, pixel, chessboard_site(p, trees, mask, position, p.distances[at]));
  }
}

// All passes of one call, and their scratch.
template <Metric kMetric, class T, bool kSites>
class Passes {
 public:
  Passes(const DistanceParams& p, Workspace& workspace)
      : p_(p), workspace_(workspace), all_(p.count * pixels_of(p)) {
    room_ = allocate<int32_t>(workspace, 2 * all_);
    if (kSearches) far_lines_ = allocate<int32_t>(workspace, all_);
  }

  Field<T> field() const {
    T* near = allocate<T>(workspace_, all_);
    return {near, kSites ? allocate<int32_t>(workspace_, all_) : nullptr};
  }

  // An axis: 0 is that of planes, 1 of rows, 2 of columns.
  template <bool kFirst>
  void pass(int axis, const Field<T>& from, const Field<T>& to) const {
    const Axis axes[3] = {{p_.depth, p_.height * p_.width}, {p_.height, p_.width}, {p_.width, 1}};
    const Source<T, kFirst> source = {p_.masks, pixels_of(p_), from};
    const int64_t lines = all_ / axes[axis].size;
    const dim3 threads(kThreads);
    void* stream = workspace_.stream();
    if constexpr (kSearches) {
      launch(clear_lines, grid_of_threads(lines), threads, 0, stream, far_lines_, lines);
      launch(search_lines<kMetric, kSites, kFirst>, grid_of_threads(all_), threads, 0, stream,
             source, axes[axis], all_, to, far_lines_);
    }
    launch(solve_lines<kMetric, T, kSites, kFirst>, grid_of_threads(lines), threads, 0, stream,
           source, axes[axis], all_, spacing_of(p_, axis, T()), to, room_, far_lines_);
  }

  void finish(const Field<T>& from) const {
    launch(finish_pass<kMetric, T, kSites>, grid_of_threads(all_), dim3(kThreads), 0,
           workspace_.stream(), p_, from);
  }

  // The tree of distances [outer, size, inner].
  LeastTree tree(const int32_t* distances, int64_t outer, int64_t size, int64_t inner) const {
    LeastTree tree = tree_of(distances, size, inner);
    for (int level = 1; level < tree.levels; ++level) {
      const int64_t count = outer * tree.size[level] * inner;
      int32_t* least = allocate<int32_t>(workspace_, count);
      launch(fill_level, grid_of_threads(count), dim3(kThreads), 0, workspace_.stream(), tree,
             level, count, least);
      tree.least[level] = least;
    }
    return tree;
  }

 private:
  static constexpr bool kSearches = std::is_same<T, int32_t>::value;

  const DistanceParams& p_;
  Workspace& workspace_;
  int64_t all_;
  int32_t* room_;
  int32_t* far_lines_ = nullptr;
};

void chessboard_with_sites(const DistanceParams& p, Workspace& workspace) {
  const Passes<Metric::kChessboard, int32_t, false> passes(p, workspace);
  const Field<int32_t> along = passes.field(), within = passes.field();
  passes.pass<true>(2, along, along);
  passes.pass<false>(1, along, within);
  ChessboardTrees trees = {};
  trees.rows = passes.tree(along.near, p.count * p.depth, p.height, p.width);
  if (p.dims == 3) {
    const Field<int32_t> found = passes.field();
    passes.pass<false>(0, within, found);
    trees.planes = passes.tree(within.near, p.count, p.depth, p.height * p.width);
    passes.finish(found);
  } else {
    passes.finish(within);
  }
  launch(find_sites, grid_of_threads(p.count * pixels_of(p)), dim3(kThreads), 0, workspace.stream(),
         p, trees);
}

template <Metric kMetric, class T, bool kSites>
void transform(const DistanceParams& p, Workspace& workspace) {
  const Passes<kMetric, T, kSites> passes(p, workspace);
  Field<T> from = passes.field(), to = passes.field();
  passes.template pass<true>(1, to, from);
  for (const int axis : {0, 2}) {
    if ((axis == 0 ? p.depth : p.width) == 1) continue;
    passes.template pass<false>(axis, from, to);
    const Field<T> done = to;
    to = from;
    from = done;
  }
  passes.finish(from);
}

void distance_cuda(const DistanceParams& p, Workspace& workspace) {
  if (p.metric == Metric::kChessboard && p.indices != nullptr) {
    return chessboard_with_sites(p, workspace);
  }
  with_distance_types(p, [&](auto metric, auto zero, auto sites) {
    transform<metric, decltype(zero), sites>(p, workspace);
  });
}

const bool registered = distance_stub.set(kCudaSlot, distance_cuda);

}  // namespace
}  // namespace visops
