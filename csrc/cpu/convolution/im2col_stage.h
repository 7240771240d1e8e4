// NOTE [ Staged rows ]
// The rows of the image that a task sees are first copied, with fill values around them, to a stage
// in the first-level cache. From there, short runs are copied without branches as whole vectors:
// excess reads stay within the stage, and the next run overwrites excess writes. The last runs,
// which nothing overwrites, are copied exactly.
//
// Unfold stages a row by phases of the stride, elements 0, stride, 2 stride, ..., then 1, stride +
// 1, ..., so that what an element of the kernel sees is adjacent.
//
// Included only by im2col_kernel.cpp.
#pragma once

#include "cpu/convolution/im2col_copies.h"

namespace visops {
namespace {

constexpr int64_t kLongestVector = 256;

struct Stage {
  // Bytes beyond kStageBytes may be read but are never used.
  alignas(64) char data[kStageBytes + kLongestVector];
  int64_t phases, phase_width, width, rows;  // elements

  template <class T>
  VISOPS_ALWAYS_INLINE T* as() {
    return reinterpret_cast<T*>(data);
  }
};

VISOPS_ALWAYS_INLINE void shape_stage(const Im2colParams& p, const Im2colTask& task, Stage* stage) {
  const WindowDim& last = p.dim[3];
  stage->phases = p.is_patches ? 1 : last.stride;
  stage->phase_width = (covered_by(last, task.count) + stage->phases - 1) / stage->phases;
  stage->width = stage->phases * stage->phase_width;
  stage->rows = covered_by(p.dim[2], task.rows);
}

// Repeats the fill value: one vector is enough for most padding.
template <class T>
struct FillVector {
  static constexpr int64_t kCount = 16 / sizeof(T);
  T of[kCount];
  T value;

  VISOPS_ALWAYS_INLINE explicit FillVector(T fill) : value(fill) {
    for (T& element : of) element = fill;
  }
  // May write more than `count` elements, up to a vector.
  VISOPS_ALWAYS_INLINE void pad(T* to, int64_t count) const {
    if (count <= kCount) {
      memcpy(to, of, sizeof(of));
    } else {
      fill_run(to, count, value);
    }
  }
};

// Stages what the task sees of a plane, which is null outside the image.
template <class T>
void stage_plane(const Im2colParams& p, const Im2colTask& task, const Stage& stage, const T* plane,
                 T fill, T* to) {
  if (plane == nullptr) {
    fill_run(to, stage.rows * stage.width, fill);
    return;
  }
  const WindowDim& last = p.dim[3];
  const int64_t y = task.row * p.dim[2].stride - p.dim[2].before;
  const int64_t x = task.first * last.stride - last.before;
  const IndexRange rows = indices_within(y, 1, p.dim[2].size, stage.rows);
  fill_run(to, rows.begin * stage.width, fill);
  if (stage.phases == 1) {
    // By rising address, so that excess padding is overwritten.
    const FillVector<T> filler(fill);
    const IndexRange there = indices_within(x, 1, last.size, stage.width);
    const int64_t copied = there.end - there.begin, after = stage.width - there.end;
    const T* from = plane + (y + rows.begin) * p.stride[2] + x + there.begin;
    T* row = to + rows.begin * stage.width;
    for (int64_t r = rows.begin; r < rows.end; ++r, row += stage.width, from += p.stride[2]) {
      if (there.begin > 0) filler.pad(row, there.begin);
      if (copied > 0) copy_bytes(row + there.begin, from, copied * static_cast<int64_t>(sizeof(T)));
      if (after > 0) filler.pad(row + there.end, after);
    }
  } else {
    for (int64_t phase = 0; phase < stage.phases; ++phase) {
      const IndexRange there =
          indices_within(x + phase, stage.phases, last.size, stage.phase_width);
      T* row = to + phase * stage.phase_width;
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        copy_row(row + r * stage.width, plane + (y + r) * p.stride[2], x + phase, stage.phases,
                 stage.phase_width, there, fill);
      }
    }
  }
  fill_run(to + rows.end * stage.width, (stage.rows - rows.end) * stage.width, fill);
}

}  // namespace
}  // namespace visops
