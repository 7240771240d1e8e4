// NOTE [ im2col on the CPU ]
// Only the size of an element matters, not its type. A task is some places of one lead index.
// Unfold writes the task's rows of the result for one element of the kernel after another. Each is
// a row of the image, or part of one between fill values; the image's rows stay in the cache until
// the last element of the kernel has read them. Short or strided rows are staged: NOTE [ Staged
// rows ]. Patches: NOTE [ Patches ].
//
// Nothing is rounded. The checks guarantee that every place lies within the padded image, and that
// no offset overflows.
#include "core/convolution/im2col.h"
#include "cpu/items.h"
#include "cpu/simd/floats.h"
#include "cpu/simd/vector.h"

namespace visops {
namespace {

// Tasks of im2col, and copies of runs too short for a call of memcpy.

constexpr int64_t kCopyBytes = 64;

// An element of 16 bytes.
struct Bytes16 {
  uint64_t low, high;
};

// Rows of places [row, row + rows), and places [first, first + count) of each.
struct Im2colTask {
  int64_t lead;
  int64_t position[2];  // in the first two dimensions
  int64_t row, rows, first, count;
};

VISOPS_ALWAYS_INLINE Im2colTask im2col_task(const Im2colParams& p, int64_t index) {
  Im2colTask task;
  const int64_t segment = index % p.segments;
  index /= p.segments;
  const int64_t band = index % p.bands;
  index /= p.bands;
  task.position[1] = index % p.dim[1].positions;
  index /= p.dim[1].positions;
  task.position[0] = index % p.dim[0].positions;
  task.lead = index / p.dim[0].positions;
  task.row = band * p.band_rows;
  const int64_t rows = p.dim[2].positions - task.row, count = p.dim[3].positions;
  task.rows = rows < p.band_rows ? rows : p.band_rows;
  task.first = segment * p.segment_positions;
  task.count = count - task.first < p.segment_positions ? count - task.first : p.segment_positions;
  return task;
}

// The task's first place, as an index into all places.
VISOPS_ALWAYS_INLINE int64_t first_position(const Im2colParams& p, const Im2colTask& task) {
  const int64_t outer = task.position[0] * p.dim[1].positions + task.position[1];
  return (outer * p.dim[2].positions + task.row) * p.dim[3].positions + task.first;
}

// The plane (last two dimensions) that the task sees through element (k0, k1) of the kernel; null
// outside the image.
template <class T>
VISOPS_ALWAYS_INLINE const T* plane_seen(const Im2colParams& p, const T* image,
                                         const Im2colTask& task, int64_t k0, int64_t k1) {
  const int64_t kernel[2] = {k0, k1};
  for (int d = 0; d < 2; ++d) {
    const WindowDim& dim = p.dim[d];
    const int64_t at = task.position[d] * dim.stride + kernel[d] * dim.dilation - dim.before;
    if (at < 0 || at >= dim.size) return nullptr;
    image += at * p.stride[d];
  }
  return image;
}

// memcpy, inlined: the last vector overlaps the one before.
VISOPS_ALWAYS_INLINE void copy_bytes(void* VISOPS_RESTRICT to, const void* VISOPS_RESTRICT from,
                                     int64_t bytes) {
  if (bytes < kCopyBytes) {
    copy_part(to, from, static_cast<size_t>(bytes));
    return;
  }
  const auto move = [to, from](int64_t at) {
    memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, kCopyBytes);
  };
  for (int64_t at = 0; at + kCopyBytes <= bytes; at += kCopyBytes) move(at);
  move(bytes - kCopyBytes);
}

template <class T>
VISOPS_ALWAYS_INLINE void fill_run(T* to, int64_t count, T value) {
  for (int64_t i = 0; i < count; ++i) to[i] = value;
}

// The integer that holds two adjacent elements: one instruction splits a vector of them.
template <class T>
struct PairOf;
template <>
struct PairOf<uint8_t> {
  using type = uint16_t;
};
template <>
struct PairOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct PairOf<uint32_t> {
  using type = uint64_t;
};

#if defined(__GNUC__)
template <class T>
struct Halves {
  using Pair = typename PairOf<T>::type;
  static constexpr int64_t kCount = kVectorBytes / static_cast<int64_t>(sizeof(Pair));
  typedef Pair Pairs __attribute__((vector_size(kVectorBytes)));
  typedef T Half __attribute__((vector_size(kVectorBytes / 2)));

  // to[i] = from[2 * i + kOdd] for kCount elements; reads twice as many.
  template <int kOdd>
  static VISOPS_ALWAYS_INLINE void copy(T* to, const T* from) {
    Pairs pairs;
    memcpy(&pairs, from, sizeof(pairs));
    const Half half = __builtin_convertvector(pairs >> (kOdd * 8 * sizeof(T)), Half);
    memcpy(to, &half, sizeof(half));
  }
};
#endif

// to[i] = from[2 * i] for `count` elements.
template <class T>
VISOPS_ALWAYS_INLINE void copy_every_second(T* VISOPS_RESTRICT to, const T* VISOPS_RESTRICT from,
                                            int64_t count) {
  int64_t i = 0;
#if defined(__GNUC__)
  if constexpr (sizeof(T) <= 4) {
    constexpr int64_t kCount = Halves<T>::kCount;
    for (; i + kCount < count; i += kCount) Halves<T>::template copy<0>(to + i, from + 2 * i);
    if (i > 0) {
      // Copies the last ones again with the element before each, as nothing may follow the last.
      const int64_t last = count - kCount;
      Halves<T>::template copy<1>(to + last, from + 2 * last - 1);
      return;
    }
  }
#endif
  for (; i < count; ++i) to[i] = from[2 * i];
}

// to[i] = from[i * step] for `count` elements.
template <class T>
VISOPS_ALWAYS_INLINE void copy_steps(T* VISOPS_RESTRICT to, const T* VISOPS_RESTRICT from,
                                     int64_t count, int64_t step) {
  if (step == 1) {
    copy_bytes(to, from, count * static_cast<int64_t>(sizeof(T)));
  } else if (step == 2) {
    copy_every_second(to, from, count);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
}

// to[i] = row[first + i * step] where i is within `there`, else `fill`.
template <class T>
VISOPS_ALWAYS_INLINE void copy_row(T* to, const T* row, int64_t first, int64_t step, int64_t count,
                                   IndexRange there, T fill) {
  fill_run(to, there.begin, fill);
  const int64_t copied = there.end - there.begin;
  if (copied > 0) copy_steps(to + there.begin, row + first + there.begin * step, copied, step);
  fill_run(to + there.end, count - there.end, fill);
}

// NOTE [ Staged rows ]
// The rows of the image that a task sees are first copied, with fill values around them, to a stage
// in the first-level cache. From there, short runs are copied without branches as whole vectors:
// excess reads stay within the stage, and the next run overwrites excess writes. The last runs,
// which nothing overwrites, are copied exactly.
//
// Unfold stages a row by phases of the stride, elements 0, stride, 2 stride, ..., then 1, stride +
// 1, ..., so that what an element of the kernel sees is adjacent.
//

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

// NOTE [ Patches ]
// The window at a place is a sequence of runs of the image's rows. Short runs are copied from
// staged rows, a vector each; others one by one from the image.
//

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
