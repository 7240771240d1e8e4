// NOTE [ The kernel's gradient on the CPU ]
// A task takes a chunk of the output at a time. It holds the chunk's rows of the output's gradient
// as terms, and one extended row of the input, which meets each row of the chunk in one row of the
// kernel. The lanes of kTaps adjacent elements of that row stay in registers along a row of the
// chunk; between rows all lanes are in scratch memory. Order of sums: NOTE [ Sums of the kernel's
// gradient ].
#include <type_traits>

#include "core/convolution/convolve2d.h"
#include "core/dispatch/threads.h"
#include "core/numbers/arithmetic.h"
#include "cpu/convolution/convolve2d_rows.h"
#include "cpu/convolution/work_parts.h"
#include "cpu/lane_sum.h"

namespace visops {
namespace {

// The kSumLanes sums of a tap; for complex numbers the real ones, then the imaginary ones.
template <class T, int Planes>
struct TapSums {
  static constexpr int kVectors = kSumLanes / Vector<T>::kCount;
  static constexpr int kSize = kSumLanes * Planes;
  Vector<T> sum[Planes][kVectors];

  VISOPS_ALWAYS_INLINE void load(const T* from) {
    for (int v = 0; v < kVectors * Planes; ++v) {
      sum[v / kVectors][v % kVectors] = load_vector(from + v * Vector<T>::kCount);
    }
  }
  VISOPS_ALWAYS_INLINE void store(T* to) const {
    for (int v = 0; v < kVectors * Planes; ++v) {
      store_vector(to + v * Vector<T>::kCount, sum[v / kVectors][v % kVectors]);
    }
  }
};

// A row of terms of the output's gradient, and one of the input.
template <class T>
struct TapRow {
  const T* grad;
  int64_t grad_plane;
  const T* input;
  int64_t input_plane;
  int64_t columns;
};

// Adds a row to the lanes of Taps adjacent elements of the kernel's gradient; the first of them
// meets column `at` of the input.
template <class T, int Planes, int Taps>
void add_taps(const TapRow<T>& row, int64_t at, T* VISOPS_RESTRICT sums) {
  using Sums = TapSums<T, Planes>;
  Sums taps[Taps];
  for (int n = 0; n < Taps; ++n) taps[n].load(sums + n * Sums::kSize);
  const int64_t whole = row.columns / kSumLanes * kSumLanes;
  for (int64_t j = 0; j < whole; j += kSumLanes) {
    for (int v = 0; v < Sums::kVectors; ++v) {
      const int64_t column = j + v * Vector<T>::kCount;
      const Vector<T> g = load_vector(row.grad + column);
      if constexpr (Planes == 1) {
        for (int n = 0; n < Taps; ++n) {
          Vector<T>& sum = taps[n].sum[0][v];
          sum = sum + g * load_vector(row.input + at + n + column);
        }
      } else {
        const Vector<T> gi = load_vector(row.grad + row.grad_plane + column);
        for (int n = 0; n < Taps; ++n) {
          const Vector<T> x = load_vector(row.input + at + n + column);
          const Vector<T> xi = load_vector(row.input + row.input_plane + at + n + column);
          Vector<T>&re = taps[n].sum[0][v], &im = taps[n].sum[Planes - 1][v];
          re = re + g * x;
          re = re - gi * xi;
          im = im + g * xi;
          im = im + gi * x;
        }
      }
    }
  }
  for (int n = 0; n < Taps; ++n) taps[n].store(sums + n * Sums::kSize);
}

// Adds the last columns, fewer than kSumLanes: the other lanes must not see what lies beyond.
template <class T, int Planes>
void add_last_columns(const TapRow<T>& row, int64_t at, T* VISOPS_RESTRICT sums) {
  const int64_t first = row.columns / kSumLanes * kSumLanes;
  for (int64_t j = first; j < row.columns; ++j) {
    const T g = row.grad[j], x = row.input[at + j];
    T& re = sums[j - first];
    re = re + g * x;
    if constexpr (Planes == 2) {
      const T gi = row.grad[row.grad_plane + j], xi = row.input[row.input_plane + at + j];
      T& im = sums[kSumLanes + j - first];
      re = re - gi * xi;
      im = im + g * xi;
      im = im + gi * x;
    }
  }
}

template <class T>
class Chunks {
 public:
  Chunks(const ConvolveTapsParams& p, const ConvolveTapsPlan& plan, char* memory, void* partial)
      : p_(p), partial_(static_cast<Term<T>*>(partial)) {
    grad_ = reinterpret_cast<Term<T>*>(memory);
    row_ = reinterpret_cast<Term<T>*>(memory + plan.grad_bytes);
    sums_ = reinterpret_cast<Term<T>*>(memory + plan.grad_bytes + plan.row_bytes);
    row_plane_ = plan.row_bytes / static_cast<int64_t>(sizeof(Term<T>)) / kPlanes;
  }

  void run(int64_t chunk) {
    const int64_t of_entry = p_.chunk_rows * p_.chunk_columns;
    const ConvolveOffsets offsets = offsets_of(p_.batch, chunk / of_entry);
    const int64_t first = chunk % of_entry / p_.chunk_columns * kChunkRows;
    const int64_t column = chunk % p_.chunk_columns * kChunkColumns;
    const int64_t rows = least(kChunkRows, p_.grad_plane.height - first);
    columns_ = least(kChunkColumns, p_.grad_plane.width - column);
    load_grad(static_cast<const T*>(p_.grad) + offsets.first, first, column, rows);
    const ExtendedPlane<T> input(static_cast<const T*>(p_.input) + offsets.second, p_.input_plane,
                                 p_.boundary, p_.fill);
    const int64_t taps = p_.kernel_height * p_.kernel_width;
    for (int64_t i = 0; i < taps * kSize; ++i) sums_[i] = 0;
    for (int64_t r = 0; r < rows + p_.kernel_height - 1; ++r) {
      input.copy_row(p_.start_y + first + r, p_.start_x + column, columns_ + p_.kernel_width - 1,
                     row_, row_plane_);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t m = r - i;
        if (m >= 0 && m < p_.kernel_height) add_row(i, m);
      }
    }
    auto* lanes = reinterpret_cast<Term<T>(*)[kSumLanes]>(sums_);
    Term<T>* to = partial_ + chunk * taps * kPlanes;
    for (int64_t i = 0; i < taps * kPlanes; ++i) to[i] = sum_lanes(lanes[i]);
  }

 private:
  static constexpr int kPlanes = planes_of<T>;
  static constexpr int kSize = kSumLanes * kPlanes;
  // As many taps as the registers hold.
  static constexpr int kTapVectors = TapSums<Term<T>, kPlanes>::kVectors * kPlanes;
  static constexpr int kMost = (VISOPS_ISA_SLOT == 2 ? 16 : 8) / kTapVectors;
  static constexpr int kTaps = kMost > 0 ? kMost : 1;

  void load_grad(const T* grad, int64_t first, int64_t column, int64_t rows) {
    const ConvolvePlane& g = p_.grad_plane;
    for (int64_t i = 0; i < rows; ++i) {
      load_terms(grad + (first + i) * g.row_stride + column * g.column_stride, g.column_stride,
                 columns_, grad_ + i * kPlanes * columns_, columns_);
    }
  }

  void add_row(int64_t i, int64_t m) {
    const TapRow<Term<T>> row = {grad_ + i * kPlanes * columns_, columns_, row_, row_plane_,
                                 columns_};
    Term<T>* sums = sums_ + m * p_.kernel_width * kSize;
    int64_t n = 0;
    for (; n + kTaps <= p_.kernel_width; n += kTaps) {
      add_taps<Term<T>, kPlanes, kTaps>(row, n, sums + n * kSize);
    }
    for (; n < p_.kernel_width; ++n) add_taps<Term<T>, kPlanes, 1>(row, n, sums + n * kSize);
    for (n = 0; n < p_.kernel_width; ++n) {
      add_last_columns<Term<T>, kPlanes>(row, n, sums + n * kSize);
    }
  }

  const ConvolveTapsParams& p_;
  Term<T>* partial_;
  Term<T>*grad_, *row_, *sums_;
  int64_t row_plane_, columns_ = 0;
};

void convolve2d_taps_kernel(const ConvolveTapsParams& p, Workspace& workspace) {
  const int64_t chunks = p.batch.count * p.chunk_rows * p.chunk_columns;
  void* partial = workspace.allocate(p.partial_bytes);
  const int64_t taps = p.kernel_height * p.kernel_width;
  const int64_t elements = p.sums_batch ? taps : p.batch.count * taps;
  with_differentiable_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if (chunks > 0) {
      const ConvolveTapsPlan plan = plan_convolve2d_taps(p, workspace.threads());
      char* scratch = allocate<char>(workspace, plan.scratch_bytes);
      parallel_for(workspace, plan.parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
          Chunks<T> task(p, plan, scratch + part * plan.part_bytes, partial);
          const int64_t last = first_of_part(chunks, plan.parts, part + 1);
          for (int64_t i = first_of_part(chunks, plan.parts, part); i < last; ++i) task.run(i);
        }
      });
    }
    parallel_for(workspace, elements, grain_of(chunks), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum_chunks<T>(p, partial, i);
    });
  });
}

const bool registered = convolve2d_taps_stub.set(kIsaSlot, convolve2d_taps_kernel);

}  // namespace
}  // namespace visops
