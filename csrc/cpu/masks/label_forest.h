// Runs of label maps, found and joined: NOTE [ Components on the CPU ] in cpu/masks/union_find.h.
#pragma once

#include <cstdint>

#include "cpu/masks/label_rows.h"
#include "cpu/masks/union_find.h"

namespace visops {
namespace {

// The runs of one label map. A row's runs are adjacent, and it has room for as many as it may
// contain.
template <class T>
class LabelForest {
 public:
  using Pixel = T;

  struct Shape {
    int64_t height, width;
    bool diagonal;

    int64_t parts() const { return height; }
    int64_t bytes() const {
      return height * (width * 3 * static_cast<int64_t>(sizeof(int32_t)) +
                       static_cast<int64_t>(sizeof(RunRange)));
    }
  };

  // `memory` has shape.bytes(), aligned to 8.
  LabelForest(const Shape& shape, const T* pixels, char* memory)
      : shape_(shape), image_({pixels, shape.width}) {
    rows_ = reinterpret_cast<RunRange*>(memory);
    edges_ = reinterpret_cast<int32_t*>(rows_ + shape.height);
    links_.links = edges_ + 2 * shape.height * shape.width;
  }

  // Finds and joins the runs of rows [begin, end). Indices begin where the rows' room does.
  void scan(int64_t begin, int64_t end) const {
    auto run = static_cast<int32_t>(begin * shape_.width);
    for (int64_t y = begin; y < end; ++y) {
      int32_t* edges = edges_ + 2 * static_cast<int64_t>(run);
      const int64_t found = (image_.edges(y, edges) - edges) / 2;
      rows_[y] = {run, static_cast<int32_t>(run + found)};
      for (; run < rows_[y].end; ++run) links_.links[run] = run;
      if (y > begin) join_above(y);
    }
  }

  // Joins the runs of row y with those of the row above.
  void join_above(int64_t y) const {
    const RunRange above = rows_[y - 1], here = rows_[y];
    const int32_t reach = shape_.diagonal ? 1 : 0;
    int32_t first = above.begin;
    for (int32_t run = here.begin; run < here.end; ++run) {
      const int32_t begin = edges_[2 * run] - reach, end = edges_[2 * run + 1] + reach;
      while (first < above.end && edges_[2 * first + 1] <= begin) ++first;
      for (int32_t a = first; a < above.end && edges_[2 * a] < end; ++a) {
        if (image_.same(y, edges_[2 * run], y - 1, edges_[2 * a])) links_.join(run, a);
      }
    }
  }

  // Replaces links by numbers of components; returns how many there are.
  int32_t number() const {
    int32_t found = 0, *links = links_.links;
    for (int64_t y = 0; y < shape_.height; ++y) {
      for (int32_t run = rows_[y].begin; run < rows_[y].end; ++run) {
        const int32_t link = links[run], number = links[link];
        found += link == run ? 1 : 0;
        links[run] = link == run ? found : number;
      }
    }
    return found;
  }

  // f(first, past, number) for the runs of row y, in columns.
  template <class F>
  VISOPS_ALWAYS_INLINE void for_runs(int64_t y, const F& f) const {
    for (int32_t run = rows_[y].begin; run < rows_[y].end; ++run) {
      f(edges_[2 * run], edges_[2 * run + 1], links_.links[run]);
    }
  }

 private:
  Shape shape_;
  LabelRows<T> image_;
  RunRange* rows_;  // [height]
  int32_t* edges_;  // [runs, 2]
  Links links_;     // [runs]
};

}  // namespace
}  // namespace visops
