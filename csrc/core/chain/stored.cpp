#include "core/chain/stored.h"

#include <utility>

namespace visops {
namespace {

struct Axis {
  int64_t stored, count, position;
};

// The least k for which k r >= n; n may be negative.
int64_t divide_up(int64_t n, int64_t r) { return n >= 0 ? (n + r - 1) / r : -(-n / r); }
int64_t divide_down(int64_t n, int64_t r) { return -divide_up(-n, r); }

Axis cover(int64_t full, int64_t first, int64_t count, bool reversed, int64_t reduction) {
  const int64_t reduced = divide_up(full, reduction);
  const int64_t origin = reversed ? full - reduced * reduction : 0;
  const int64_t begin = divide_down(first - origin, reduction);
  const int64_t end = divide_up(first + count - origin, reduction);
  return {reversed ? reduced - end : begin, end - begin, origin + begin * reduction};
}

}  // namespace

StoredPart stored_part(int64_t height, int64_t width, int64_t orientation,
                       const PixelWindow& window, int64_t reduction) {
  const int64_t o = orientation;
  const bool from_bottom = o == 3 || o == 4 || o == 7 || o == 8;
  const bool from_right = o == 2 || o == 3 || o == 6 || o == 7;
  Axis rows = cover(height, window.top, window.height, from_bottom, reduction);
  Axis columns = cover(width, window.left, window.width, from_right, reduction);
  const int64_t top = rows.position, left = columns.position;
  if (swaps_sides(orientation)) std::swap(rows, columns);
  return {rows.stored, columns.stored, rows.count, columns.count, top, left};
}

}  // namespace visops
