// Removal of small regions on the CPU.
//
// NOTE [ Small regions on the CPU ]
// Strategy: NOTE [ Components on the CPU ] numbers the regions, whose pixels are then counted run
// by run. A row of the result is filled with what surrounds regions, then kept regions are drawn.
// No labels are written.
//
// Split: tasks have masks.
#include <cstring>

#include "core/masks/components.h"
#include "cpu/masks/forest.h"

namespace visops {
namespace {

// Pixels of each component of a numbered image; returns the number of the largest, the first of
// equal ones, or 0 if there is none.
int32_t count_pixels(const Forest& forest, int64_t height, int32_t found, int64_t* areas) {
  for (int32_t i = 0; i <= found; ++i) areas[i] = 0;
  for (int64_t y = 0; y < height; ++y) {
    for (int32_t run = forest.rows[y].begin; run < forest.rows[y].end; ++run) {
      areas[forest.links[run]] += forest.edges[2 * run + 1] - forest.edges[2 * run];
    }
  }
  int32_t largest = 0;
  for (int32_t i = 1; i <= found; ++i) largest = areas[i] > areas[largest] ? i : largest;
  return largest;
}

void clean_mask(const SmallRegionsParams& p, int64_t i, const Forest& forest, int64_t* areas) {
  const int64_t pixels = p.height * p.width;
  const MaskRows image = {p.masks + i * pixels, p.width, p.holes};
  scan_rows(forest, image, 0, p.height, p.diagonal ? 1 : 0);
  const int32_t found = number_rows(forest, 0, p.height, 0);
  const int32_t largest = count_pixels(forest, p.height, found, areas);
  const int32_t always = p.holes || areas[largest] >= p.min_area ? 0 : largest;
  const uint8_t region = p.holes ? 0 : 1;
  uint8_t changed = 0;
  for (int64_t y = 0; y < p.height; ++y) {
    uint8_t* row = p.cleaned + i * pixels + y * p.width;
    memset(row, 1 - region, static_cast<size_t>(p.width));
    for (int32_t run = forest.rows[y].begin; run < forest.rows[y].end; ++run) {
      const int32_t number = forest.links[run];
      if (areas[number] < p.min_area && number != always) {
        changed = 1;
        continue;
      }
      const int32_t first = forest.edges[2 * run];
      memset(row + first, region, static_cast<size_t>(forest.edges[2 * run + 1] - first));
    }
  }
  p.changed[i] = changed;
}

void small_regions_kernel(const SmallRegionsParams& p, Workspace& workspace) {
  const int64_t most = (p.width + 1) / 2;
  const int64_t tasks = mask_tasks(p.count, p.height, p.width, workspace);
  const int64_t area_bytes = (p.height * most + 1) * static_cast<int64_t>(sizeof(int64_t));
  const int64_t bytes = area_bytes + (Forest::bytes(p.height, most) + 7) / 8 * 8;
  char* memory = allocate<char>(workspace, bytes * tasks);
  for_each_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    char* own = memory + task * bytes;
    const Forest forest = Forest::at(own + area_bytes, p.height, most);
    for (int64_t i = begin; i < end; ++i) {
      clean_mask(p, i, forest, reinterpret_cast<int64_t*>(own));
    }
  });
}

const bool registered = small_regions_stub.set(kIsaSlot, small_regions_kernel);

}  // namespace
}  // namespace visops
