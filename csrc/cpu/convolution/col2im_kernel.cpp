// NOTE [ col2im on the CPU ]
// Work is cut over rows of the image, so no two tasks add to one element. Sums are kept in the
// first-level cache. For unfold they cover as many rows as fit, so that each element of the kernel
// adds long runs of columns. For patches they cover a stretch of one row, whose patches stay in the
// second-level cache until the last row of the kernel has read them.
//
// Order of the sums: NOTE [ Sums of col2im ]. In patches, places are visited in descending order
// within a row of the kernel, so that an element's terms come by ascending k.
//
// The checks guarantee that every place lies within the padded image, and that no offset overflows.
#include "core/convolution/im2col.h"
#include "cpu/items.h"
#include "cpu/simd/floats.h"

namespace visops {
namespace {

constexpr int64_t kSumBytes = int64_t{1} << 14, kPatchStretch = 512;

template <class T>
VISOPS_ALWAYS_INLINE void store_sums(T* VISOPS_RESTRICT to, const SumOf<T>* VISOPS_RESTRICT sums,
                                     int64_t count) {
  for (int64_t i = 0; i < count; ++i) store_sum(to + i, sums[i]);
}

template <class T>
VISOPS_ALWAYS_INLINE void add_all(SumOf<T>* VISOPS_RESTRICT sums, const T* VISOPS_RESTRICT values,
                                  int64_t count) {
  for (int64_t i = 0; i < count; ++i) add(sums + i, values + i);
}

// sums[i * step] += values[i], where elements have kParts numbers.
template <class T, int kParts>
VISOPS_ALWAYS_INLINE void add_steps(SumOf<T>* VISOPS_RESTRICT sums, const T* VISOPS_RESTRICT values,
                                    int64_t count, int64_t step) {
  if (step == 1) {
    add_all(sums, values, count * kParts);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int part = 0; part < kParts; ++part) {
      add(sums + i * step * kParts + part, values + i * kParts + part);
    }
  }
}

// The place that sees element `at` of the image through element k of the kernel; -1 if none does.
VISOPS_ALWAYS_INLINE int64_t position_of(const WindowDim& dim, int64_t at, int64_t k) {
  int64_t position = at + dim.before - k * dim.dilation;
  if (dim.stride != 1) {
    if (position % dim.stride != 0) return -1;
    position /= dim.stride;
  }
  return position >= 0 && position < dim.positions ? position : -1;
}

// The elements of the kernel through which some place may see element `at` of the image. With
// stride 1 each of them has such a place, so work is bounded by the number of columns.
VISOPS_ALWAYS_INLINE IndexRange kernel_elements_at(const WindowDim& dim, int64_t at) {
  const int64_t last = at + dim.before, first = last - (dim.positions - 1) * dim.stride;
  IndexRange range;
  range.begin = first <= 0 ? 0 : (first + dim.dilation - 1) / dim.dilation;
  range.end = last / dim.dilation + 1;
  if (range.end > dim.kernel) range.end = dim.kernel;
  return range;
}

// Rows [row, row + rows) of one plane of the image, elements [begin, end) of each.
struct Patch {
  int64_t lead, plane[2];  // the plane's indices in the first two dimensions
  int64_t row, rows, begin, end;
};

// The first row of places that see the patch's plane through element (k0, k1) of the kernel; -1 if
// none does.
VISOPS_ALWAYS_INLINE int64_t position_rows(const Im2colParams& p, const Patch& patch, int64_t k0,
                                           int64_t k1) {
  const int64_t position0 = position_of(p.dim[0], patch.plane[0], k0);
  const int64_t position1 = position_of(p.dim[1], patch.plane[1], k1);
  if (position0 < 0 || position1 < 0) return -1;
  return (position0 * p.dim[1].positions + position1) * p.dim[2].positions;
}

template <class T, int kParts>
struct Sums {
  SumOf<T> of[kSumBytes / sizeof(SumOf<T>)];

  static constexpr int64_t kElements = kSumBytes / static_cast<int64_t>(sizeof(SumOf<T>)) / kParts;
};

// Adds the columns of element (k2, k3) of the kernel to the patch; `columns` begin at the plane of
// places that sees the patch.
template <class T, int kParts>
void add_column(const Im2colParams& p, const Patch& patch, int64_t k2, int64_t k3, const T* columns,
                SumOf<T>* sums) {
  const WindowDim& row = p.dim[2];
  const WindowDim& last = p.dim[3];
  const int64_t width = patch.end - patch.begin;
  const int64_t y = k2 * row.dilation - row.before - patch.row;
  const int64_t x = k3 * last.dilation - last.before - patch.begin;
  const IndexRange rows = indices_within(y, row.stride, patch.rows, row.positions);
  const IndexRange there = indices_within(x, last.stride, width, last.positions);
  for (int64_t position = rows.begin; position < rows.end; ++position) {
    const int64_t to = (y + position * row.stride) * width + x + there.begin * last.stride;
    add_steps<T, kParts>(sums + to * kParts,
                         columns + (position * last.positions + there.begin) * kParts,
                         there.end - there.begin, last.stride);
  }
}

template <class T, int kParts>
void add_unfolded(const Im2colParams& p, const Patch& patch, SumOf<T>* sums) {
  const T* columns =
      static_cast<const T*>(p.source) + patch.lead * p.kernel_elements * p.positions * kParts;
  const int64_t kernel_row = p.dim[3].kernel, kernel_plane = p.dim[2].kernel * kernel_row;
  const IndexRange k0s = kernel_elements_at(p.dim[0], patch.plane[0]);
  const IndexRange k1s = kernel_elements_at(p.dim[1], patch.plane[1]);
  for (int64_t k0 = k0s.begin; k0 < k0s.end; ++k0) {
    for (int64_t k1 = k1s.begin; k1 < k1s.end; ++k1) {
      const int64_t from = position_rows(p, patch, k0, k1);
      if (from < 0) continue;
      const int64_t k = (k0 * p.dim[1].kernel + k1) * kernel_plane;
      const T* plane = columns + (k * p.positions + from * p.dim[3].positions) * kParts;
      for (int64_t k2 = 0; k2 < p.dim[2].kernel; ++k2) {
        for (int64_t k3 = 0; k3 < kernel_row; ++k3, plane += p.positions * kParts) {
          add_column<T, kParts>(p, patch, k2, k3, plane, sums);
        }
      }
    }
  }
}

// Adds one row of the kernel, from element k on, to a patch of one row.
template <class T, int kParts>
void add_row_of_patches(const Im2colParams& p, const Patch& patch, int64_t position_row, int64_t k,
                        SumOf<T>* sums) {
  const WindowDim& last = p.dim[3];
  const int64_t covered = (last.kernel - 1) * last.dilation, width = patch.end - patch.begin;
  // Places whose window overlaps the patch, if it had no gaps.
  const IndexRange positions = indices_within(covered - last.before - patch.begin, last.stride,
                                              width + covered, last.positions);
  const T* patches =
      static_cast<const T*>(p.source) +
      ((patch.lead * p.positions + position_row * last.positions) * p.kernel_elements + k) * kParts;
  for (int64_t position = positions.end - 1; position >= positions.begin; --position) {
    const T* values = patches + position * p.kernel_elements * kParts;
    const int64_t at = position * last.stride - last.before - patch.begin;
    IndexRange there = {0, last.kernel};
    if (at < 0 || at + covered >= width) {
      there = indices_within(at, last.dilation, width, last.kernel);
    }
    add_steps<T, kParts>(sums + (at + there.begin * last.dilation) * kParts,
                         values + there.begin * kParts, there.end - there.begin, last.dilation);
  }
}

template <class T, int kParts>
void add_patches(const Im2colParams& p, const Patch& patch, SumOf<T>* sums) {
  const IndexRange k0s = kernel_elements_at(p.dim[0], patch.plane[0]);
  const IndexRange k1s = kernel_elements_at(p.dim[1], patch.plane[1]);
  const IndexRange k2s = kernel_elements_at(p.dim[2], patch.row);
  for (int64_t k0 = k0s.begin; k0 < k0s.end; ++k0) {
    for (int64_t k1 = k1s.begin; k1 < k1s.end; ++k1) {
      const int64_t from = position_rows(p, patch, k0, k1);
      if (from < 0) continue;
      for (int64_t k2 = k2s.begin; k2 < k2s.end; ++k2) {
        const int64_t position = position_of(p.dim[2], patch.row, k2);
        if (position < 0) continue;
        const int64_t row = (k0 * p.dim[1].kernel + k1) * p.dim[2].kernel + k2;
        add_row_of_patches<T, kParts>(p, patch, from + position, row * p.dim[3].kernel, sums);
      }
    }
  }
}

template <class T, int kParts>
void col2im_rows(const Im2colParams& p, int64_t begin, int64_t end) {
  using S = Sums<T, kParts>;
  S sums;
  const int64_t width = p.dim[3].size, rows = image_rows(p);
  // A stretch's patches must stay in the second-level cache for all rows of the kernel.
  const int64_t most = p.is_patches && S::kElements > kPatchStretch ? kPatchStretch : S::kElements;
  const int64_t stretch = width < most ? width : most;
  while (begin < end) {
    const OuterIndex at = outer_image(p, begin % rows);
    Patch patch = {begin / rows, {at.at[0], at.at[1]}, at.at[2], p.dim[2].size - at.at[2], 0, 0};
    if (patch.rows > end - begin) patch.rows = end - begin;
    const int64_t fit = p.is_patches ? 1 : S::kElements / stretch;
    if (patch.rows > fit) patch.rows = fit;
    T* result = static_cast<T*>(p.result) + begin * width * kParts;
    for (; patch.begin < width; patch.begin = patch.end) {
      patch.end = width - patch.begin < stretch ? width : patch.begin + stretch;
      const int64_t numbers = (patch.end - patch.begin) * kParts;
      memset(sums.of, 0, static_cast<size_t>(patch.rows * numbers) * sizeof(SumOf<T>));
      if (p.is_patches) {
        add_patches<T, kParts>(p, patch, sums.of);
      } else {
        add_unfolded<T, kParts>(p, patch, sums.of);
      }
      for (int64_t r = 0; r < patch.rows; ++r) {
        store_sums(result + (r * width + patch.begin) * kParts, sums.of + r * numbers, numbers);
      }
    }
    begin += patch.rows;
  }
}

void col2im_range(const Im2colParams& p, int64_t begin, int64_t end) {
  with_sum_element(p.arithmetic, [&](auto element) {
    using Element = decltype(element);
    col2im_rows<typename Element::Stored, Element::kNumbers>(p, begin, end);
  });
}

void col2im_kernel(const Im2colParams& p, Workspace& workspace) {
  const int64_t cost = p.dim[kWindowDims - 1].size * p.kernel_elements;
  for_items(workspace, p, p.lead * image_rows(p), cost, col2im_range);
}

const bool registered = col2im_stub.set(kIsaSlot, col2im_kernel);

}  // namespace
}  // namespace visops
