// Polygons to the runs of masks.
#pragma once

#include <cstdint>
#include <vector>

namespace visops {

// Polygons of objects, one after another. Coordinates are finite and below 1e8 in magnitude.
struct PolygonLists {
  const double* points;            // [points, 2] x, y
  const int64_t* point_offsets;    // [polygons + 1] where polygons begin
  const int64_t* polygon_offsets;  // [objects + 1] where objects begin, among polygons
  int64_t objects, height, width;
};

// How many runs the objects have at most.
int64_t most_polygon_runs(const PolygonLists& p);

// Writes where the runs of all objects end (NOTE [ Runs of masks ]), and [objects + 1] where
// objects begin. A mask of no pixels has one run.
void polygon_runs(const PolygonLists& p, int32_t* ends, int64_t* offsets);

}  // namespace visops
