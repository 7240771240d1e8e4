// NOTE [ Patches ]
// The window at a place is a sequence of runs of the image's rows. Short runs are copied from
// staged rows, a vector each; others one by one from the image.
//
// Included only by im2col_kernel.cpp.
#pragma once

#include "cpu/convolution/im2col_stage.h"

namespace visops {
namespace {

// Copies the patches of the task's rows, run by run.
template <class T>
void patches_one_by_one(const Im2colParams& p, const Im2colTask& task, const T* image, T fill,
                        T* out) {
  const WindowDim& last = p.dim[3];
  for (int64_t k0 = 0; k0 < p.dim[0].kernel; ++k0) {
    for (int64_t k1 = 0; k1 < p.dim[1].kernel; ++k1) {
      const T* plane = plane_seen(p, image, task, k0, k1);
      for (int64_t k2 = 0; k2 < p.dim[2].kernel; ++k2, out += last.kernel) {
        const int64_t offset = k2 * p.dim[2].dilation - p.dim[2].before;
        for (int64_t row = 0; row < task.rows; ++row) {
          const int64_t y = (task.row + row) * p.dim[2].stride + offset;
          const bool is_there = plane != nullptr && y >= 0 && y < p.dim[2].size;
          T* to = out + row * last.positions * p.kernel_elements;
          for (int64_t i = 0; i < task.count; ++i, to += p.kernel_elements) {
            const int64_t x = (task.first + i) * last.stride - last.before;
            IndexRange there = {0, 0};
            if (is_there) there = indices_within(x, last.dilation, last.size, last.kernel);
            copy_row(to, is_there ? plane + y * p.stride[2] : nullptr, x, last.dilation,
                     last.kernel, there, fill);
          }
        }
      }
    }
  }
}

// Where the kernel's rows lie in the stage, in bytes from the window's place.
struct KernelRows {
  static constexpr int64_t kMost = kStageBytes / 2;  // a staged row has two elements or more
  uint16_t offset[kMost];
  int64_t count;
};

// Copies `count` patches that are `step` bytes apart in the stage. Their runs have `run` <= kVector
// bytes and are copied as kVector. kRows is the number of runs, or 0 for any.
template <int kVector, int kRows>
char* whole_patches(const char* from, int64_t step, const KernelRows& rows, int64_t run,
                    int64_t count, char* to) {
  if (kRows == 0) {
    for (int64_t i = 0; i < count; ++i, from += step) {
      for (int64_t k = 0; k < rows.count; ++k, to += run) {
        memcpy(to, from + rows.offset[k], kVector);
      }
    }
    return to;
  }
  int64_t offset[kRows > 0 ? kRows : 1];
  for (int k = 0; k < kRows; ++k) offset[k] = rows.offset[k];
  for (int64_t i = 0; i < count; ++i, from += step) {
    for (int k = 0; k < kRows; ++k, to += run) memcpy(to, from + offset[k], kVector);
  }
  return to;
}

// Copies the patches of a row of places.
template <int kVector>
void patches_of_row(const char* from, int64_t step, const KernelRows& rows, int64_t run,
                    int64_t count, char* to) {
  const int64_t patch = rows.count * run;
  // The places whose last vector ends within the row of the result.
  int64_t whole = count * patch < kVector - run ? 0 : (count * patch - kVector + run) / patch;
  if (whole > count) whole = count;
  switch (rows.count) {
    case 2: to = whole_patches<kVector, 2>(from, step, rows, run, whole, to); break;
    case 3: to = whole_patches<kVector, 3>(from, step, rows, run, whole, to); break;
    case 5: to = whole_patches<kVector, 5>(from, step, rows, run, whole, to); break;
    case 7: to = whole_patches<kVector, 7>(from, step, rows, run, whole, to); break;
    default: to = whole_patches<kVector, 0>(from, step, rows, run, whole, to);
  }
  from += whole * step;
  for (int64_t i = whole; i < count; ++i, from += step) {
    for (int64_t k = 0; k < rows.count; ++k, to += run) {
      copy_bytes(to, from + rows.offset[k], run);
    }
  }
}

template <class T>
void patches_staged(const Im2colParams& p, const Im2colTask& task, const T* image, T fill,
                    Stage* stage, T* out) {
  constexpr int64_t kBytes = sizeof(T);
  const WindowDim& row = p.dim[2];
  const WindowDim& last = p.dim[3];
  shape_stage(p, task, stage);
  KernelRows rows;
  rows.count = 0;
  T* plane = stage->as<T>();
  for (int64_t k0 = 0; k0 < p.dim[0].kernel; ++k0) {
    for (int64_t k1 = 0; k1 < p.dim[1].kernel; ++k1, plane += stage->rows * stage->width) {
      stage_plane(p, task, *stage, plane_seen(p, image, task, k0, k1), fill, plane);
      const int64_t at = plane - stage->as<T>();
      for (int64_t k2 = 0; k2 < row.kernel; ++k2) {
        const int64_t offset = (at + k2 * row.dilation * stage->width) * kBytes;
        rows.offset[rows.count++] = static_cast<uint16_t>(offset);
      }
    }
  }
  const int64_t run = last.kernel * kBytes, step = last.stride * kBytes;
  for (int64_t r = 0; r < task.rows; ++r) {
    const char* from = stage->data + r * row.stride * stage->width * kBytes;
    char* to = reinterpret_cast<char*>(out + r * last.positions * p.kernel_elements);
    if (run <= 8) {
      patches_of_row<8>(from, step, rows, run, task.count, to);
    } else if (run <= 16) {
      patches_of_row<16>(from, step, rows, run, task.count, to);
    } else if (run <= 32) {
      patches_of_row<32>(from, step, rows, run, task.count, to);
    } else if (run <= 64) {
      patches_of_row<64>(from, step, rows, run, task.count, to);
    } else {
      patches_of_row<128>(from, step, rows, run, task.count, to);
    }
  }
}

}  // namespace
}  // namespace visops
