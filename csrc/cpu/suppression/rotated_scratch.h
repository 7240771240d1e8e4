// The memory that suppression of rotated boxes takes.
#pragma once

#include "core/rotated_box.h"
#include "core/suppression/scratch.h"

namespace visops {
namespace {

// The memory of a segment, or of all of them: for each candidate its box, and so many elements and
// integers of the runs that find neighbours.
template <int64_t Elements, int64_t Integers>
struct RotatedScratch {
  RotatedBox* boxes;
  double* elements;
  int32_t* integers;

  // Whether that is enough for a segment of `count` candidates, and so for larger ones.
  static constexpr bool holds(int64_t elements, int64_t integers, int64_t count) {
    return elements <= Elements * count && integers <= Integers * count;
  }

  static RotatedScratch allocate(Workspace& workspace, int64_t count) {
    constexpr int64_t bytes =
        sizeof(RotatedBox) + Elements * sizeof(double) + Integers * sizeof(int32_t);
    char* memory = visops::allocate<char>(workspace, count * bytes);
    RotatedScratch scratch;
    scratch.boxes = take_array<RotatedBox>(&memory, count);
    scratch.elements = take_array<double>(&memory, count * Elements);
    scratch.integers = take_array<int32_t>(&memory, count * Integers);
    return scratch;
  }

  // The part of the segment that begins with candidate `begin`.
  RotatedScratch part(int64_t begin) const {
    return {boxes + begin, elements + begin * Elements, integers + begin * Integers};
  }
};

}  // namespace
}  // namespace visops
