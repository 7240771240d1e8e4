// Connected components: what fronts and kernels share.
//
// NOTE [ Components ]
// Pixels connect with their 4 or 8 neighbours. In a mask, pixels that are not 0 connect. In a label
// map, neighbours connect where their labels are equal and not 0. Components are numbered from 1 in
// the raster order of their first pixels, mask by mask.
//
// Every backend runs union-find in which links lead from later to earlier pixels, or runs of
// pixels. Numbers follow first pixels, whatever the order of unions. So the result depends neither
// on the schedule nor on the algorithm.
#pragma once

#include <string>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

struct ComponentsParams {
  const void* masks;  // [count, height, width], contiguous
  DType dtype;        // kBool: masks; integers: label maps
  int64_t count, height, width;
  bool diagonal;  // 8 neighbours instead of 4

  int32_t* labels;  // [count, height, width]; 0 outside
  int32_t* found;   // [count] components of each mask
};

struct ComponentStatsParams {
  const int32_t* labels;  // [count, height, width], contiguous
  int64_t count, height, width;
  int64_t regions;  // labels outside [1, regions] are ignored

  // Row r describes label r + 1; zeros where it has no pixels.
  int64_t* areas;     // [count, regions]
  int64_t* boxes;     // [count, regions, 4] x1, y1, x2, y2, the last two exclusive
  double* centroids;  // [count, regions, 2] x, y
};

struct SmallRegionsParams {
  const uint8_t* masks;  // [count, height, width], contiguous; pixels that are not 0 are inside
  int64_t count, height, width;
  int64_t min_area;  // regions of fewer pixels go
  bool holes;        // regions are of pixels outside, and are filled; else they are islands
  bool diagonal;

  uint8_t* cleaned;  // [count, height, width] 0 or 1
  uint8_t* changed;  // [count] 0 or 1
};

VISOPS_FN double centroid_of(int64_t sum, int64_t area) {
  return static_cast<double>(sum) / static_cast<double>(area);
}

extern KernelStub<ComponentsParams> components_stub;
extern KernelStub<ComponentStatsParams> component_stats_stub;
extern KernelStub<SmallRegionsParams> small_regions_stub;

// Positions and labels are 32-bit: refuses masks of 2^31 pixels or more.
void check_mask_size(const char* op, const char* name, int64_t height, int64_t width);
bool parse_connectivity(const char* op, int64_t connectivity);    // whether diagonals connect
bool parse_region_kind(const char* op, const std::string& name);  // whether it is "holes"

}  // namespace visops
