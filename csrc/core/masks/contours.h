// The borders of a mask as polygons.
#pragma once

#include <cstdint>
#include <vector>

namespace visops {

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
