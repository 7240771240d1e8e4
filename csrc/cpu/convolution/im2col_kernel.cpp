// NOTE [ im2col on the CPU ]
// Only the size of an element matters, not its type. A task is some places of one lead index.
// Unfold writes the task's rows of the result for one element of the kernel after another. Each is
// a row of the image, or part of one between fill values; the image's rows stay in the cache until
// the last element of the kernel has read them. Short or strided rows are staged: NOTE [ Staged
// rows ]. Patches: NOTE [ Patches ].
//
// Nothing is rounded. The checks guarantee that every place lies within the padded image, and that
// no offset overflows.
#include "cpu/convolution/im2col_patches.h"
#include "cpu/items.h"

namespace visops {
namespace {

// Copies what one element of the kernel sees of a plane, which is null outside the image.
template <class T>
void unfold_plane(const Im2colParams& p, const Im2colTask& task, const T* plane, int64_t k2,
                  int64_t k3, T fill, T* out) {
  const WindowDim& row = p.dim[2];
  const WindowDim& last = p.dim[3];
  const int64_t y = task.row * row.stride + k2 * row.dilation - row.before;
  const int64_t x = task.first * last.stride + k3 * last.dilation - last.before;
  const IndexRange rows = plane == nullptr ? IndexRange{task.rows, task.rows}
                                           : indices_within(y, row.stride, row.size, task.rows);
  const IndexRange there = indices_within(x, last.stride, last.size, task.count);
  for (int64_t r = 0; r < task.rows; ++r, out += last.positions) {
    if (r < rows.begin || r >= rows.end) {
      fill_run(out, task.count, fill);
    } else {
      copy_row(out, plane + (y + r * row.stride) * p.stride[2], x, last.stride, task.count, there,
               fill);
    }
  }
}

// Copies `rows` runs of `bytes` bytes, `step` bytes apart in the source, adjacent in the result.
template <int kVector, int kVectors>
void copy_runs(const char* from, int64_t step, int64_t bytes, int64_t rows, char* to) {
  constexpr int64_t kWritten = kVector * kVectors;
  const int64_t most = (rows * bytes - kWritten) / bytes;  // the last that may write too much
  int64_t r = 0;
  if (rows * bytes >= kWritten) {
    for (; r <= most; ++r, from += step, to += bytes) {
      for (int v = 0; v < kVectors; ++v) memcpy(to + v * kVector, from + v * kVector, kVector);
    }
  }
  for (; r < rows; ++r, from += step, to += bytes) copy_bytes(to, from, bytes);
}

void copy_rows(const char* from, int64_t step, int64_t bytes, int64_t rows, char* to) {
  switch ((bytes + 63) / 64) {
    case 1:
      if (bytes <= 8) return copy_runs<8, 1>(from, step, bytes, rows, to);
      if (bytes <= 16) return copy_runs<16, 1>(from, step, bytes, rows, to);
      if (bytes <= 32) return copy_runs<32, 1>(from, step, bytes, rows, to);
      return copy_runs<64, 1>(from, step, bytes, rows, to);
    case 2: return copy_runs<64, 2>(from, step, bytes, rows, to);
    case 3: return copy_runs<64, 3>(from, step, bytes, rows, to);
    case 4: return copy_runs<64, 4>(from, step, bytes, rows, to);
    default:
      for (int64_t r = 0; r < rows; ++r) copy_bytes(to + r * bytes, from + r * step, bytes);
  }
}

// Copies what one element of the kernel sees of the stage: task.rows rows, `step` elements apart.
template <class T>
void unfold_stage(const Im2colTask& task, const T* from, int64_t step, int64_t positions, T* out) {
  constexpr int64_t kBytes = sizeof(T);
  if (task.count == positions) {
    copy_rows(reinterpret_cast<const char*>(from), step * kBytes, task.count * kBytes, task.rows,
              reinterpret_cast<char*>(out));
    return;
  }
  for (int64_t r = 0; r < task.rows; ++r) {
    copy_bytes(out + r * positions, from + r * step, task.count * kBytes);
  }
}

template <class T>
void unfold_staged(const Im2colParams& p, const Im2colTask& task, const T* plane, T fill,
                   Stage* stage, T* out) {
  const WindowDim& row = p.dim[2];
  const WindowDim& last = p.dim[3];
  stage_plane(p, task, *stage, plane, fill, stage->as<T>());
  const int64_t step = row.stride * stage->width;
  const int64_t whole = last.dilation / stage->phases, rest = last.dilation % stage->phases;
  for (int64_t k2 = 0; k2 < row.kernel; ++k2) {
    const T* from = stage->as<T>() + k2 * row.dilation * stage->width;
    int64_t phase = 0;
    for (int64_t k3 = 0; k3 < last.kernel; ++k3, out += p.positions) {
      unfold_stage(task, from + phase * stage->phase_width, step, last.positions, out);
      from += whole;
      phase += rest;
      if (phase >= stage->phases) {
        phase -= stage->phases;
        ++from;
      }
    }
  }
}

template <class T>
void unfold_task(const Im2colParams& p, const Im2colTask& task, const T* image, T fill,
                 Stage* stage, T* out) {
  if (p.is_staged) shape_stage(p, task, stage);
  const int64_t kernel_plane = p.dim[2].kernel * p.dim[3].kernel;
  for (int64_t k0 = 0; k0 < p.dim[0].kernel; ++k0) {
    for (int64_t k1 = 0; k1 < p.dim[1].kernel; ++k1, out += kernel_plane * p.positions) {
      const T* plane = plane_seen(p, image, task, k0, k1);
      if (p.is_staged) {
        unfold_staged(p, task, plane, fill, stage, out);
        continue;
      }
      for (int64_t k = 0; k < kernel_plane; ++k) {
        unfold_plane(p, task, plane, k / p.dim[3].kernel, k % p.dim[3].kernel, fill,
                     out + k * p.positions);
      }
    }
  }
}

template <class T>
void im2col_all(const Im2colParams& p, int64_t begin, int64_t end) {
  T fill;
  memcpy(&fill, p.fill, sizeof(T));
  Stage stage;
  for (int64_t index = begin; index < end; ++index) {
    const Im2colTask task = im2col_task(p, index);
    const T* image = static_cast<const T*>(p.source) + lead_offset(p, task.lead);
    T* out = static_cast<T*>(p.result) + task.lead * p.kernel_elements * p.positions;
    const int64_t position = first_position(p, task);
    if (!p.is_patches) {
      unfold_task(p, task, image, fill, &stage, out + position);
    } else if (p.is_staged) {
      patches_staged(p, task, image, fill, &stage, out + position * p.kernel_elements);
    } else {
      patches_one_by_one(p, task, image, fill, out + position * p.kernel_elements);
    }
  }
}

void im2col_range(const Im2colParams& p, int64_t begin, int64_t end) {
  switch (p.element_size) {
    case 1: return im2col_all<uint8_t>(p, begin, end);
    case 2: return im2col_all<uint16_t>(p, begin, end);
    case 4: return im2col_all<uint32_t>(p, begin, end);
    case 8: return im2col_all<uint64_t>(p, begin, end);
    default: return im2col_all<Bytes16>(p, begin, end);
  }
}

void im2col_kernel(const Im2colParams& p, Workspace& workspace) {
  const int64_t cost = p.band_rows * p.segment_positions * p.kernel_elements;
  for_items(workspace, p, im2col_tasks(p), cost, im2col_range);
}

const bool registered = im2col_stub.set(kIsaSlot, im2col_kernel);

}  // namespace
}  // namespace visops
