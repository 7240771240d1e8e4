// Removal of small regions on the CPU.
//
// NOTE [ Small regions on the CPU ]
// Strategy: NOTE [ Components on the CPU ] numbers the regions, whose pixels are then counted run
// by run. The result is a copy, in which small regions are then overwritten. No labels are written.
//
// Split: tasks have masks.
#include <cstring>

#include "core/masks/components.h"
#include "cpu/masks/partition.h"
#include "cpu/masks/strips.h"

namespace visops {
namespace {

// Pixels of each component of a numbered mask; returns the number of the largest, the first of
// equal ones, or 0 if there is none.
int32_t count_pixels(const Strips& strips, int64_t count, int32_t found, int64_t* areas) {
  for (int32_t i = 0; i <= found; ++i) areas[i] = 0;
  for (int64_t strip = 0; strip < count; ++strip) {
    const int64_t first_row = strips.first_row(strip), last_row = strips.last_row(strip);
    strips.for_runs(strip, [&](int64_t first, int64_t past, int32_t number) {
      areas[number] += count_range(strips.row(first_row), first, past);
      if (last_row != first_row) areas[number] += count_range(strips.row(last_row), first, past);
    });
  }
  int32_t largest = 0;
  for (int32_t i = 1; i <= found; ++i) largest = areas[i] > areas[largest] ? i : largest;
  return largest;
}

void clean_mask(const SmallRegionsParams& p, int64_t i, const Strips::Shape& shape, char* memory,
                int64_t* areas) {
  const int64_t pixels = p.height * p.width;
  const Strips strips(shape, p.masks + i * pixels, memory);
  strips.scan(0, shape.strips());
  const int32_t found = strips.number();
  const int32_t largest = count_pixels(strips, shape.strips(), found, areas);
  const int32_t always = p.holes || areas[largest] >= p.min_area ? 0 : largest;
  const uint8_t* from = p.masks + i * pixels;
  uint8_t *to = p.cleaned + i * pixels, changed = 0;
  for (int64_t x = 0; x < pixels; ++x) to[x] = from[x] != 0 ? 1 : 0;
  for (int64_t strip = 0; strip < shape.strips(); ++strip) {
    uint8_t* first_row = to + strips.first_row(strip) * p.width;
    uint8_t* last_row = to + strips.last_row(strip) * p.width;
    strips.for_runs(strip, [&](int64_t first, int64_t past, int32_t number) {
      if (areas[number] >= p.min_area || number == always) return;
      changed = 1;
      // Other pixels of these columns are what small regions become.
      memset(first_row + first, p.holes ? 1 : 0, static_cast<size_t>(past - first));
      memset(last_row + first, p.holes ? 1 : 0, static_cast<size_t>(past - first));
    });
  }
  p.changed[i] = changed;
}

void small_regions_kernel(const SmallRegionsParams& p, Workspace& workspace) {
  const Strips::Shape shape = {p.height, p.width, p.diagonal, p.holes};
  const int64_t tasks = mask_tasks(p.count, p.height, p.width, workspace);
  const int64_t area_bytes = (shape.strips() * shape.most() + 1) * 8;
  const int64_t bytes = (area_bytes + shape.bytes() + 63) / 64 * 64;
  char* memory = allocate<char>(workspace, bytes * tasks);
  for_each_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    char* own = memory + task * bytes;
    for (int64_t i = begin; i < end; ++i) {
      clean_mask(p, i, shape, own + area_bytes, reinterpret_cast<int64_t*>(own));
    }
  });
}

const bool registered = small_regions_stub.set(kIsaSlot, small_regions_kernel);

}  // namespace
}  // namespace visops
