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

// The borders of a mask as polygons.

struct Contours {
  std::vector<int32_t> points;   // x, y of each vertex: of pixel centres
  std::vector<int64_t> lengths;  // vertices of each border
  std::vector<int64_t> regions;  // the outer border that each belongs to: itself, or that of a hole
};

// Appends the borders of a mask's regions, connected by sides or corners, each before the holes in
// it that are found later, in the order of their first pixels; counts regions from
// `regions.size()`. `keeps_all`: every pixel of a border is a vertex; else those where it turns.
//
// Source: S. Suzuki and K. Abe, "Topological structural analysis of digitized binary images by
// border following", CVGIP 1985, algorithm 1; the vertices are those of OpenCV's findContours.
void find_contours(const uint8_t* mask, int64_t height, int64_t width, bool keeps_all,
                   Contours* contours);

}  // namespace visops
