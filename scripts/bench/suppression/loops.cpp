// Peers that can't be installed here, as their definitions read: serial loops over all pairs, for
// scripts/bench/nms.py. Compiled with -O3 -march=native.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct Entry {
  float x1, y1, x2, y2, area, score;
  int64_t index;
};

struct Point {
  double x, y;
};

struct Rotated {
  Point corner[4];  // counter-clockwise
  double area;
};

Rotated corners_of(const double* b) {
  const double c = std::cos(b[4]), s = std::sin(b[4]);
  const double wx = c * b[2] / 2, wy = s * b[2] / 2, hx = -s * b[3] / 2, hy = c * b[3] / 2;
  return {{{b[0] - wx - hx, b[1] - wy - hy},
           {b[0] + wx - hx, b[1] + wy - hy},
           {b[0] + wx + hx, b[1] + wy + hy},
           {b[0] - wx + hx, b[1] - wy + hy}},
          b[2] * b[3]};
}

// Sutherland and Hodgman's clipping, then the shoelace formula.
double intersection(const Rotated& a, const Rotated& b) {
  Point polygon[16], clipped[16];
  int count = 4;
  std::copy(a.corner, a.corner + 4, polygon);
  for (int e = 0; e < 4 && count > 0; ++e) {
    const Point p = b.corner[e], q = b.corner[(e + 1) % 4];
    const auto side = [&](const Point& v) {
      return (q.x - p.x) * (v.y - p.y) - (q.y - p.y) * (v.x - p.x);
    };
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      const Point v = polygon[i], w = polygon[(i + 1) % count];
      const double sv = side(v), sw = side(w);
      if (sv >= 0) clipped[kept++] = v;
      if ((sv >= 0) != (sw >= 0)) {
        const double t = sv / (sv - sw);
        clipped[kept++] = {v.x + t * (w.x - v.x), v.y + t * (w.y - v.y)};
      }
    }
    count = kept;
    std::copy(clipped, clipped + kept, polygon);
  }
  double twice = 0;
  for (int i = 0; i < count; ++i) {
    const Point v = polygon[i], w = polygon[(i + 1) % count];
    twice += v.x * w.y - w.x * v.y;
  }
  return twice / 2;
}

}  // namespace

extern "C" {

// mmcv's soft_nms: the best of what is left is swapped to the front, all others are decayed, and
// what falls below min_score is swapped with the last. method: 0 hard, 1 linear, 2 gaussian.
// boxes [count, 4], scores [count]; writes kept indices and their scores, returns how many.
int64_t soft_nms_loop(const float* boxes, const float* scores, int64_t count, float iou_threshold,
                      float sigma, float min_score, int64_t method, int64_t* keep,
                      float* kept_scores) {
  std::vector<Entry> left(count);
  for (int64_t i = 0; i < count; ++i) {
    const float* b = boxes + 4 * i;
    left[i] = {b[0], b[1], b[2], b[3], (b[2] - b[0]) * (b[3] - b[1]), scores[i], i};
  }
  int64_t n = count, i = 0;
  for (; i < n; ++i) {
    int64_t best = i;
    for (int64_t j = i + 1; j < n; ++j) {
      if (left[j].score > left[best].score) best = j;
    }
    std::swap(left[i], left[best]);
    const Entry top = left[i];
    keep[i] = top.index;
    kept_scores[i] = top.score;
    for (int64_t j = i + 1; j < n;) {
      Entry& e = left[j];
      const float width = std::max(0.0f, std::min(top.x2, e.x2) - std::max(top.x1, e.x1));
      const float height = std::max(0.0f, std::min(top.y2, e.y2) - std::max(top.y1, e.y1));
      const float inter = width * height;
      const float iou = inter / (top.area + e.area - inter);
      float factor = 1.0f;
      if (method == 0 && iou >= iou_threshold) factor = 0.0f;
      if (method == 1 && iou >= iou_threshold) factor = 1.0f - iou;
      if (method == 2) factor = std::exp(-(iou * iou) / sigma);
      e.score *= factor;
      if (e.score < min_score) {
        e = left[--n];
      } else {
        ++j;
      }
    }
  }
  return n;
}

// Greedy suppression of rotated boxes [count, 5], best first: each kept one against all after it.
// Returns how many positions were written to `keep`.
int64_t nms_rotated_loop(const double* boxes, int64_t count, double iou_threshold, int64_t* keep) {
  std::vector<Rotated> all(count);
  for (int64_t i = 0; i < count; ++i) all[i] = corners_of(boxes + 5 * i);
  std::vector<char> out(count, 0);
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (out[i]) continue;
    keep[kept++] = i;
    for (int64_t j = i + 1; j < count; ++j) {
      if (out[j]) continue;
      const double inter = intersection(all[i], all[j]);
      if (inter / (all[i].area + all[j].area - inter) > iou_threshold) out[j] = 1;
    }
  }
  return kept;
}
}
