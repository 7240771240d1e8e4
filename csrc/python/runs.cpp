// Runs of masks for ops/masks/runs.py: COCO's texts and counts, areas, overlaps and polygons. Long
// calls release the interpreter's lock.
#include <pybind11/stl.h>

#include <optional>
#include <vector>

#include "core/masks/contours.h"
#include "core/masks/polygons.h"
#include "core/masks/rle_text.h"
#include "python/array.h"
#include "python/bindings.h"

namespace visops {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

RunLists lists_of(const Array<int32_t>& ends, const Array<int64_t>& offsets) {
  return {ends.data(), offsets.data(), static_cast<int64_t>(offsets.size()) - 1};
}

// The characters of all masks, and where each begins.
py::tuple write_text(const Array<int32_t>& ends, const Array<int64_t>& offsets) {
  Array<uint8_t> text(kMostCharacters * ends.size());
  Array<int64_t> begins(offsets.size());
  char* const characters = reinterpret_cast<char*>(text.mutable_data());
  int64_t* const starts = begins.mutable_data();
  const RunLists runs = lists_of(ends, offsets);
  run_unlocked(ends.size(), [&] { write_run_text(runs, characters, starts); });
  return py::make_tuple(text, begins);
}

py::tuple failure_of(const RunFailure& failure) {
  return py::make_tuple(static_cast<int>(failure.error), failure.entry, failure.detail);
}

// Ends, offsets [N + 1], and what is wrong: the number of a RunError, of which mask, and a detail.
py::tuple read_text(const py::bytes& text, const Array<int64_t>& begins,
                    const Array<int64_t>& pixels) {
  const int64_t count = pixels.size();
  Array<int32_t> ends(begins.data()[count]);
  Array<int64_t> offsets(begins.size());
  const char* const characters = PyBytes_AS_STRING(text.ptr());
  int32_t* const found = ends.mutable_data();
  int64_t* const starts = offsets.mutable_data();
  RunFailure failure = {};
  run_unlocked(ends.size(), [&] {
    failure = read_run_text(characters, begins.data(), pixels.data(), count, found, starts);
  });
  return py::make_tuple(ends, offsets, failure_of(failure));
}

// Ends, and what is wrong.
py::tuple read_counts(const Array<int64_t>& counts, const Array<int64_t>& offsets,
                      const Array<int64_t>& pixels) {
  Array<int32_t> ends(counts.size());
  int32_t* const found = ends.mutable_data();
  RunFailure failure = {};
  run_unlocked(ends.size(), [&] {
    failure = read_run_counts(counts.data(), offsets.data(), pixels.data(), pixels.size(), found);
  });
  return py::make_tuple(ends, failure_of(failure));
}

Array<int64_t> areas(const Array<int32_t>& ends, const Array<int64_t>& offsets) {
  Array<int64_t> found(offsets.size() - 1);
  int64_t* const pixels = found.mutable_data();
  const RunLists runs = lists_of(ends, offsets);
  run_unlocked(ends.size(), [&] { run_areas(runs, pixels); });
  return found;
}

Array<double> overlaps(const Array<int32_t>& ends1, const Array<int64_t>& offsets1,
                       const Array<int32_t>& ends2, const Array<int64_t>& offsets2,
                       const std::optional<Array<uint8_t>>& crowd, int64_t height) {
  Array<double> found({offsets1.size() - 1, offsets2.size() - 1});
  double* const values = found.mutable_data();
  const RunLists first = lists_of(ends1, offsets1), second = lists_of(ends2, offsets2);
  const uint8_t* const is_crowd = crowd ? crowd->data() : nullptr;
  const int64_t work = ends1.size() * second.count + ends2.size();
  run_unlocked(work, [&] { run_overlaps(first, second, is_crowd, height, values); });
  return found;
}

// Ends, of which only the first offsets[objects] are, and offsets [objects + 1].
py::tuple of_polygons(const Array<double>& points, const Array<int64_t>& point_offsets,
                      const Array<int64_t>& polygon_offsets, int64_t height, int64_t width) {
  const PolygonLists polygons = {points.data(),
                                 point_offsets.data(),
                                 polygon_offsets.data(),
                                 static_cast<int64_t>(polygon_offsets.size()) - 1,
                                 height,
                                 width};
  Array<int32_t> ends(most_polygon_runs(polygons));
  Array<int64_t> offsets(polygon_offsets.size());
  int32_t* const found = ends.mutable_data();
  int64_t* const starts = offsets.mutable_data();
  run_unlocked(ends.size(), [&] { polygon_runs(polygons, found, starts); });
  return py::make_tuple(ends, offsets);
}

// The borders of masks [N, H, W]: vertices [P, 2], and for each border how many it has and which
// outer border it belongs to; and how many borders each mask has.
py::tuple contours(const Array<uint8_t>& masks, bool keeps_all) {
  const int64_t count = masks.shape(0), height = masks.shape(1), width = masks.shape(2);
  const uint8_t* const data = masks.data();
  Contours found;
  std::vector<int64_t> borders;
  run_unlocked(masks.size(), [&] {
    for (int64_t i = 0; i < count; ++i) {
      const size_t before = found.lengths.size();
      find_contours(data + i * height * width, height, width, keeps_all, &found);
      borders.push_back(static_cast<int64_t>(found.lengths.size() - before));
    }
  });
  const auto points = static_cast<py::ssize_t>(found.points.size() / 2);
  return py::make_tuple(array_of(found.points, {points, 2}), array_of(found.lengths),
                        array_of(found.regions), array_of(borders));
}

}  // namespace

void bind_runs(py::module_& m) {
  m.def("write_run_text", &write_text);
  m.def("read_run_text", &read_text);
  m.def("read_run_counts", &read_counts);
  m.def("run_areas", &areas);
  m.def("run_overlaps", &overlaps);
  m.def("polygon_runs", &of_polygons);
  m.def("contours", &contours);
}

}  // namespace visops
