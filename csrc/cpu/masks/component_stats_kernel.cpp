// Areas, boxes and centroids of labels on the CPU.
//
// NOTE [ Statistics of labels on the CPU ]
// Rows become runs of equal labels, and sums grow run by run: a run of n pixels from column x adds
// n, n y and n x + n (n - 1) / 2. Tasks have images. Sums are of integers, below 2^62 for images of
// fewer than 2^31 pixels; the centroid is one division.
#include "core/masks/components.h"
#include "cpu/masks/label_rows.h"
#include "cpu/masks/partition.h"

namespace visops {
namespace {

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

const bool registered = component_stats_stub.set(kIsaSlot, component_stats_kernel);

}  // namespace
}  // namespace visops
