// Connected components on the CPU: NOTE [ Components on the CPU ].
#include <cstdint>

#include "core/masks/components.h"
#include "cpu/masks/partition.h"
#include "cpu/masks/strips.h"
#include "cpu/simd/vector.h"

namespace visops {
namespace {

// Runs of label maps, found and joined: NOTE [ Components on the CPU ] in cpu/masks/strips.h.

// The runs of one label map. A row's runs are adjacent, and it has room for as many as it may
// contain.
template <class T>
class LabelForest {
 public:
  using Pixel = T;

  struct Shape {
    int64_t height, width;
    bool diagonal;

    int64_t parts() const { return height; }
    int64_t bytes() const {
      return height * (width * 3 * static_cast<int64_t>(sizeof(int32_t)) +
                       static_cast<int64_t>(sizeof(RunRange)));
    }
  };

  // `memory` has shape.bytes(), aligned to 8.
  LabelForest(const Shape& shape, const T* pixels, char* memory)
      : shape_(shape), image_({pixels, shape.width}) {
    rows_ = reinterpret_cast<RunRange*>(memory);
    edges_ = reinterpret_cast<int32_t*>(rows_ + shape.height);
    links_.links = edges_ + 2 * shape.height * shape.width;
  }

  // Finds and joins the runs of rows [begin, end). Indices begin where the rows' room does.
  void scan(int64_t begin, int64_t end) const {
    auto run = static_cast<int32_t>(begin * shape_.width);
    for (int64_t y = begin; y < end; ++y) {
      int32_t* edges = edges_ + 2 * static_cast<int64_t>(run);
      const int64_t found = (image_.edges(y, edges) - edges) / 2;
      rows_[y] = {run, static_cast<int32_t>(run + found)};
      for (; run < rows_[y].end; ++run) links_.links[run] = run;
      if (y > begin) join_above(y);
    }
  }

  // Joins the runs of row y with those of the row above.
  void join_above(int64_t y) const {
    const RunRange above = rows_[y - 1], here = rows_[y];
    const int32_t reach = shape_.diagonal ? 1 : 0;
    int32_t first = above.begin;
    for (int32_t run = here.begin; run < here.end; ++run) {
      const int32_t begin = edges_[2 * run] - reach, end = edges_[2 * run + 1] + reach;
      while (first < above.end && edges_[2 * first + 1] <= begin) ++first;
      for (int32_t a = first; a < above.end && edges_[2 * a] < end; ++a) {
        if (image_.same(y, edges_[2 * run], y - 1, edges_[2 * a])) links_.join(run, a);
      }
    }
  }

  // Replaces links by numbers of components; returns how many there are.
  int32_t number() const {
    int32_t found = 0, *links = links_.links;
    for (int64_t y = 0; y < shape_.height; ++y) {
      for (int32_t run = rows_[y].begin; run < rows_[y].end; ++run) {
        const int32_t link = links[run], number = links[link];
        found += link == run ? 1 : 0;
        links[run] = link == run ? found : number;
      }
    }
    return found;
  }

  // f(first, past, number) for the runs of row y, in columns.
  template <class F>
  VISOPS_ALWAYS_INLINE void for_runs(int64_t y, const F& f) const {
    for (int32_t run = rows_[y].begin; run < rows_[y].end; ++run) {
      f(edges_[2 * run], edges_[2 * run + 1], links_.links[run]);
    }
  }

 private:
  Shape shape_;
  LabelRows<T> image_;
  RunRange* rows_;  // [height]
  int32_t* edges_;  // [runs, 2]
  Links links_;     // [runs]
};

using Labels = Vector<uint32_t>;

// labels[begin, end) = value; may write beyond `end`, but not beyond `width`.
VISOPS_ALWAYS_INLINE void fill_run(int32_t* labels, int64_t begin, int64_t end, int64_t width,
                                   int32_t value) {
  const Labels values = broadcast(static_cast<uint32_t>(value));
  for (; begin < end && begin + Labels::kCount <= width; begin += Labels::kCount) {
    store_vector(reinterpret_cast<uint32_t*>(labels + begin), values);
  }
  for (; begin < end; ++begin) labels[begin] = value;
}

// Writes row y of a numbered label map. What a run writes too far, the next one replaces.
template <class T>
void write_part(const LabelForest<T>& forest, const T*, int64_t y, int64_t width, int32_t* labels) {
  int32_t* row = labels + y * width;
  int64_t at = 0;
  forest.for_runs(y, [&](int64_t first, int64_t past, int32_t number) {
    fill_run(row, at, first, width, 0);
    fill_run(row, first, past, width, number);
    at = past;
  });
  fill_run(row, at, width, width, 0);
}

// to[x] = numbers[x] inside, 0 outside.
inline void keep_inside(const uint8_t* VISOPS_RESTRICT pixels, const int32_t* numbers,
                        int64_t width, int32_t* to) {
  for (int64_t x = 0; x < width; ++x) to[x] = numbers[x] & (pixels[x] != 0 ? -1 : 0);
}

// Writes the rows of a numbered strip. Its first row gets numbers that both can choose from;
// between runs they are what memory contains.
inline void write_part(const Strips& strips, const uint8_t* pixels, int64_t strip, int64_t width,
                       int32_t* labels) {
  const int64_t first_row = strips.first_row(strip) * width;
  const int64_t last_row = strips.last_row(strip) * width;
  int32_t* numbers = labels + first_row;
  strips.for_runs(strip, [&](int64_t first, int64_t past, int32_t number) {
    fill_run(numbers, first, past, width, number);
  });
  if (last_row != first_row) keep_inside(pixels + last_row, numbers, width, labels + last_row);
  keep_inside(pixels + first_row, numbers, width, numbers);
}

template <class Image, class Shape>
void label_images(const ComponentsParams& p, const Shape& shape, Workspace& workspace) {
  using Pixel = typename Image::Pixel;
  const int64_t pixels = p.height * p.width, bytes = (shape.bytes() + 63) / 64 * 64;
  const auto image_of = [&](int64_t i) { return static_cast<const Pixel*>(p.masks) + i * pixels; };
  const auto write = [&](int64_t i, const Image& image, int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      write_part(image, image_of(i), part, p.width, p.labels + i * pixels);
    }
  };
  const int64_t most = mask_bands(p.count, p.height, p.width, workspace);
  const Bands bands = {shape.parts(), most < shape.parts() ? most : shape.parts()};
  if (bands.bands > 1) {
    char* memory = allocate<char>(workspace, bytes);
    for (int64_t i = 0; i < p.count; ++i) {
      const Image image(shape, image_of(i), memory);
      p.found[i] = number_in_bands(image, bands, workspace);
      parallel_for(workspace, bands.bands, 1, [&](int64_t first, int64_t last) {
        write(i, image, bands.begin(first), bands.begin(last));
      });
    }
    return;
  }
  const int64_t tasks = mask_tasks(p.count, p.height, p.width, workspace);
  char* memory = allocate<char>(workspace, bytes * tasks);
  for_each_long_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Image image(shape, image_of(i), memory + task * bytes);
      image.scan(0, shape.parts());
      p.found[i] = image.number();
      write(i, image, 0, shape.parts());
    }
  });
}

template <class T>
void label_map(const ComponentsParams& p, Workspace& workspace) {
  const typename LabelForest<T>::Shape shape = {p.height, p.width, p.diagonal};
  label_images<LabelForest<T>>(p, shape, workspace);
}

void components_kernel(const ComponentsParams& p, Workspace& workspace) {
  if (p.dtype == DType::kBool) {
    const Strips::Shape shape = {p.height, p.width, p.diagonal, false};
    return label_images<Strips>(p, shape, workspace);
  }
  switch (element_size(p.dtype)) {
    case 1: return label_map<uint8_t>(p, workspace);
    case 2: return label_map<uint16_t>(p, workspace);
    case 4: return label_map<uint32_t>(p, workspace);
    default: return label_map<uint64_t>(p, workspace);
  }
}

const bool registered = components_stub.set(kIsaSlot, components_kernel);

// Areas, boxes and centroids of labels on the CPU.
//
// NOTE [ Statistics of labels on the CPU ]
// Rows become runs of equal labels, and sums grow run by run: a run of n pixels from column x adds
// n, n y and n x + n (n - 1) / 2. Tasks have images. Sums are of integers, below 2^62 for images of
// fewer than 2^31 pixels; the centroid is one division.

struct Sums {
  int64_t x, y;
};

void measure_image(const ComponentStatsParams& p, int64_t i, int32_t* edges, Sums* sums) {
  int64_t* areas = p.areas + i * p.regions;
  int64_t* boxes = p.boxes + i * p.regions * 4;
  for (int64_t r = 0; r < p.regions; ++r) {
    areas[r] = 0;
    sums[r] = {0, 0};
    for (int k = 0; k < 4; ++k) boxes[4 * r + k] = 0;
  }
  const auto* labels = reinterpret_cast<const uint32_t*>(p.labels) + i * p.height * p.width;
  const LabelRows<uint32_t> image = {labels, p.width};
  for (int64_t y = 0; y < p.height; ++y) {
    const int32_t* end = image.edges(y, edges);
    for (const int32_t* edge = edges; edge < end; edge += 2) {
      const auto label = static_cast<int32_t>(labels[y * p.width + edge[0]]);
      if (label < 1 || label > p.regions) continue;
      const int64_t r = label - 1, length = edge[1] - edge[0];
      int64_t* box = boxes + 4 * r;
      if (areas[r] == 0) {
        box[0] = edge[0];
        box[1] = y;
      }
      box[0] = edge[0] < box[0] ? edge[0] : box[0];
      box[2] = edge[1] > box[2] ? edge[1] : box[2];
      box[3] = y + 1;
      areas[r] += length;
      sums[r].x += length * edge[0] + length * (length - 1) / 2;
      sums[r].y += length * y;
    }
  }
  double* centroids = p.centroids + i * p.regions * 2;
  for (int64_t r = 0; r < p.regions; ++r) {
    centroids[2 * r] = areas[r] == 0 ? 0.0 : centroid_of(sums[r].x, areas[r]);
    centroids[2 * r + 1] = areas[r] == 0 ? 0.0 : centroid_of(sums[r].y, areas[r]);
  }
}

void component_stats_kernel(const ComponentStatsParams& p, Workspace& workspace) {
  const int64_t tasks = mask_tasks(p.count, p.height, p.width, workspace);
  Sums* sums = allocate<Sums>(workspace, tasks * p.regions);
  int32_t* edges = allocate<int32_t>(workspace, tasks * 2 * p.width);
  for_each_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      measure_image(p, i, edges + task * 2 * p.width, sums + task * p.regions);
    }
  });
}

const bool stats_registered = component_stats_stub.set(kIsaSlot, component_stats_kernel);

}  // namespace
}  // namespace visops
