// NOTE [ Staged rows ]
// The rows of the image that a task sees are first copied to where all of them are in the
// first-level cache, with what is outside of the image filled in. After that nothing branches, and
// short runs are copied as whole vectors: what is read too much is within the stage, and what is
// written too much is overwritten by the next run. The last runs, which nothing overwrites, are
// copied to their length.
//
// For unfold a row is staged by phases of the stride, elements 0, stride, 2 stride, ..., then 1,
// stride + 1, ..., so that what an element of the kernel sees of it lies side by side.
//
// Included only by csrc/cpu/im2col*_kernel.cpp; everything has internal linkage (DESIGN 4).
#pragma once

#include "cpu/convolution/im2col_copies.h"

namespace visops {
namespace {

constexpr int64_t kLongestVector = 256;

struct Stage {
  // What is beyond kStageBytes is read, never used.
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

// Enough of the fill value for most padding: written as one vector.
template <class T>
struct FillVector {
  static constexpr int64_t kCount = 16 / sizeof(T);
  T of[kCount];
  T value;

  VISOPS_ALWAYS_INLINE explicit FillVector(T fill) : value(fill) {
    for (T& element : of) element = fill;
  }
  // May write more than `count`, up to a vector.
  VISOPS_ALWAYS_INLINE void pad(T* to, int64_t count) const {
    if (count <= kCount) {
      memcpy(to, of, sizeof(of));
    } else {
      fill_run(to, count, value);
    }
  }
};

// Stages what the task sees of a plane, which is null outside of the image.
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
    // By rising address, so that what is padded too much is overwritten.
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
