// NOTE [ Convolution on the CPU ]
// A block of the output stays in registers (cpu/convolution/convolve2d_block.h). It reads the input
// in place where elements need no conversion and lie inside the border; elsewhere it reads a ring
// of extended rows in scratch memory. A row is copied there once for all rows of the output that
// use it. So sums never branch.
//
// Work is cut over the output's rows into parts, each with its own scratch; no sum is split. Order
// of sums: NOTE [ Convolution's sums ]. Few columns: NOTE [ Narrow outputs ].
#include "core/convolution/convolve2d.h"
#include "cpu/convolution/convolve2d_block.h"
#include "cpu/convolution/convolve2d_rows.h"
#include "cpu/convolution/work_parts.h"

namespace visops {
namespace {

// What is summed: terms, but complex numbers stay pairs.
template <class T>
using Summand = std::conditional_t<planes_of<T> == 2, T, Term<T>>;

// Vectors in a block's row, and its rows: with a weight and a product they fill the registers.
constexpr int kVectors = VISOPS_ISA_SLOT == 2 ? 4 : 2;
constexpr int kRows = 4;
// Where the kernel is tall, blocks of floats have more rows: a vector of the input then serves more
// products. Of integers and complex numbers, products take more registers.
template <class Summand>
constexpr int kTallRows =
    VISOPS_ISA_SLOT < 2 && std::is_floating_point_v<Summand> ? static_cast<int>(kConvolveRows)
                                                             : kRows;

// Columns of the output that read their input from one place.
struct Tile {
  int64_t column, width;
  bool copied;        // through the ring
  int64_t slot_term;  // where its terms begin in a slot
};

template <class T>
class Part {
 public:
  Part(const ConvolveParams& p, const ConvolvePlan& plan, char* memory)
      : p_(p), plan_(plan), memory_(memory) {
    pointers_ = reinterpret_cast<const Summand<T>**>(memory_ + plan.layout.row_pointers);
    fill_row_ = reinterpret_cast<Summand<T>*>(memory_ + plan.layout.fill_row);
    sums_ = reinterpret_cast<Summand<T>*>(memory_ + plan.layout.sums);
    ring_ = reinterpret_cast<Summand<T>*>(memory_ + plan.layout.ring);
    terms_.rows = pointers_;
    const int64_t size = sizeof(T), row = p.output_width * size;
    streams_ = !plan.transposes && p.batch.count * p.output_height * row >= kWorthStreaming &&
               row % kStreamLine == 0 && reinterpret_cast<uintptr_t>(p.output) % kStreamLine == 0;
    terms_.column = 0;
    weights_ = reinterpret_cast<Weight<Summand<T>>*>(memory_ + plan.layout.weights);
    terms_.weights = weights_;
    terms_.height = p.kernel_plane.height;
    terms_.parts = plan.transposes ? p.kernel_plane.width : 1;
    terms_.width = plan.transposes ? 1 : p.kernel_plane.width;
    rows_ = terms_.height < kTall - 1 ? kRows : kTall;
  }

  // Runs all bands or pieces of the output, counted over the whole batch, that are this part's.
  void run(int64_t part) {
    const int64_t count =
        p_.batch.count * (plan_.transposes ? pieces_of_plane() : bands_of_plane());
    const int64_t begin = first_of_part(count, plan_.parts, part);
    const int64_t end = first_of_part(count, plan_.parts, part + 1);
    if (plan_.transposes) {
      run_pieces(begin, end);
    } else {
      run_bands(begin, end);
    }
  }

 private:
  using Rows = ExtendedPlane<T>;
  static constexpr int64_t kBlock = kVectors * TermVector<Summand<T>>::kCount;
  static constexpr int kTall = kTallRows<Summand<T>>;

  int64_t bands_of_plane() const { return (p_.output_height + rows_ - 1) / rows_; }

  int64_t pieces_of_plane() const {
    return (p_.output_width + kTransposedColumns - 1) / kTransposedColumns;
  }

  // The input of an entry of the batch; packs its kernel.
  ExtendedPlane<T> enter(int64_t entry) {
    const ConvolveOffsets offsets = offsets_of(p_.batch, entry);
    const T* kernel = static_cast<const T*>(p_.kernel) + offsets.second;
    if (kernel != packed_) pack(kernel);
    packed_ = kernel;
    const T* input = static_cast<const T*>(p_.input) + offsets.first;
    return ExtendedPlane<T>(input, p_.input_plane, p_.boundary, p_.fill);
  }

  T* output_of(int64_t entry) const {
    return static_cast<T*>(p_.output) + entry * p_.output_height * p_.output_width;
  }

  // Runs pieces [begin, end) of kTransposedColumns columns.
  void run_pieces(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t entry = i / pieces_of_plane();
      const int64_t column = i % pieces_of_plane() * kTransposedColumns;
      const int64_t rest = p_.output_width - column;
      run_columns(enter(entry), column, rest < kTransposedColumns ? rest : kTransposedColumns, 0,
                  p_.output_height, output_of(entry));
    }
  }

  // Runs bands [begin, end) of rows_ rows.
  void run_bands(int64_t begin, int64_t end) {
    const int64_t height = p_.output_height, bands = bands_of_plane();
    while (begin < end) {
      const int64_t entry = begin / bands, next = (entry + 1) * bands;
      const int64_t stop = next < end ? next : end;
      const int64_t first = begin % bands * rows_, last = first + (stop - begin) * rows_;
      const ExtendedPlane<T> plane = enter(entry);
      for (int64_t j = 0; j < p_.output_width; j += kConvolveColumns) {
        const int64_t rest = p_.output_width - j;
        run_columns(plane, j, rest < kConvolveColumns ? rest : kConvolveColumns, first,
                    last < height ? last : height, output_of(entry));
      }
      begin = stop;
    }
    end_streaming();
  }

  void pack(const T* kernel) {
    const ConvolvePlane& k = p_.kernel_plane;
    Weight<Summand<T>>* to = weights_;
    for (int64_t part = 0; part < terms_.parts; ++part) {
      for (int64_t m = 0; m < k.height; ++m) {
        for (int64_t n = part; n < part + terms_.width; ++n) {
          Summand<T> weight;
          load_terms(kernel + m * k.row_stride + n * k.column_stride, 1, 1, &weight, 1);
          *to++ = WeightOf<Summand<T>>::of(weight);
        }
      }
    }
  }

  // Splits columns into up to three tiles; whole blocks in the middle are read in place.
  int set_tiles(int64_t column, int64_t width, Tile (&tiles)[3]) const {
    const int64_t reach = p_.kernel_plane.width - 1, end = column + width;
    int64_t first = -p_.start_x, last = p_.input_plane.width - reach - p_.start_x;
    if (first < column) first = column;
    if (last > end) last = end;
    first = column + (first - column + kBlock - 1) / kBlock * kBlock;
    const int64_t blocks = last > first ? (last - first) / kBlock : 0;
    const bool as_they_are = std::is_same_v<T, Summand<T>> && p_.input_plane.column_stride == 1;
    if (!as_they_are || blocks < 2) {
      tiles[0] = {column, width, true, 0};
      return 1;
    }
    last = first + blocks * kBlock;
    int count = 0;
    if (first > column) tiles[count++] = {column, first - column, true, 0};
    tiles[count++] = {first, last - first, false, 0};
    const int64_t after_first = count == 2 ? tiles[0].width + reach + kSlack : 0;
    if (last < end) tiles[count++] = {last, end - last, true, after_first};
    return count;
  }

  // Sums columns [column, column + width) of output rows [first, last).
  void run_columns(const Rows& input, int64_t column, int64_t width, int64_t first, int64_t last,
                   T* output) {
    Tile tiles[3];
    const int tile_count = set_tiles(column, width, tiles);
    if (p_.boundary == Padding::kConstant) {
      for (int t = 0; t < tile_count; ++t) {
        if (!tiles[t].copied)
          input.fill_row(tiles[t].width + p_.kernel_plane.width - 1, fill_row_, 0);
      }
    }
    int64_t copied = 0;  // rows in the ring, since the first
    for (int64_t i = first, rows = 0; i < last; i += rows) {
      rows = rows_of_block(last - i);
      const int64_t needed = i - first + rows + terms_.height - 1;
      for (int t = 0; t < tile_count; ++t) {
        const Tile& tile = tiles[t];
        if (tile.copied) {
          for (int64_t r = copied; r < needed; ++r)
            copy_row(input, tile, p_.start_y + first + r, slot(r));
        }
        set_pointers(input, tile, first, i, rows);
        terms_.row_stride = tile.copied ? 0 : p_.input_plane.row_stride;
        if (plan_.transposes) {
          run_transposed(tile, rows, output + tile.column * p_.output_height + i);
        } else {
          run_tile(tile, rows, output + i * p_.output_width + tile.column);
        }
      }
      copied = needed;
    }
  }

  // Copies a row and clears what the last block reads beyond it. No result has it, but numbers that
  // happen to lie there may be subnormal, and multiplying those takes 30 times as long.
  void copy_row(const Rows& input, const Tile& tile, int64_t y, Summand<T>* to) const {
    const int64_t count = tile.width + p_.kernel_plane.width - 1;
    to += tile.slot_term;
    input.copy_row(y, p_.start_x + tile.column, count, to, 0);
    memset(static_cast<void*>(to + count), 0, kConvolveSlack);
  }

  // Rows of the next block, where `rest` are left.
  int64_t rows_of_block(int64_t rest) const {
    if (rest >= rows_) return rows_;
    return rest < kRows ? rest : kRows;
  }

  // No more rows than a block reads: they stay in the cache.
  Summand<T>* slot(int64_t row) const {
    return ring_ + row % (terms_.height + rows_ - 1) * plan_.layout.slot_terms;
  }

  void set_pointers(const Rows& input, const Tile& tile, int64_t first, int64_t i, int64_t rows) {
    for (int64_t k = 0; k < rows + terms_.height - 1; ++k) {
      if (tile.copied) {
        pointers_[k] = slot(i - first + k) + tile.slot_term;
      } else if constexpr (std::is_same_v<T, Summand<T>>) {
        const T* row = input.row_of(p_.start_y + i + k);
        pointers_[k] = row == nullptr ? fill_row_ : row + p_.start_x + tile.column;
      }
    }
  }

  void run_tile(const Tile& tile, int64_t rows, T* output) {
    if constexpr (std::is_same_v<T, Summand<T>>) {
      sum(rows, tile.width, {output, p_.output_width, streams_});
    } else {
      const int64_t row = plan_.layout.slot_terms;
      sum(rows, tile.width, {sums_, row, false});
      for (int64_t i = 0; i < rows; ++i) {
        store_row(sums_ + i * row, output + i * p_.output_width, tile.width);
      }
    }
  }

  // Rows of the transposed problem are columns of the output.
  void run_transposed(const Tile& tile, int64_t rows, T* output) {
    const int64_t row = plan_.layout.slot_terms;
    sum(rows, tile.width, {sums_, row, false});
    for (int64_t i = 0; i < rows; ++i) {
      const T* from;
      T values[kTransposedColumns];
      if constexpr (std::is_same_v<T, Summand<T>>) {
        from = sums_ + i * row;
      } else {
        store_terms(values, sums_ + i * row, tile.width);
        from = values;
      }
      for (int64_t j = 0; j < tile.width; ++j) output[j * p_.output_height + i] = from[j];
    }
  }

  void sum(int64_t rows, int64_t columns, const BlockResult<Summand<T>>& result) const {
    if constexpr (kTall > kRows) {
      if (rows == kTall) {
        return sum_tall_rows<Summand<T>, kTall, kVectors>(terms_, columns, result);
      }
    }
    sum_rows<Summand<T>, kRows, kVectors>(terms_, rows, columns, result);
  }

  // A streamed output goes through a piece that stays in the cache.
  void store_row(const Term<T>* sums, T* output, int64_t columns) const {
    constexpr int64_t kPiece = 2048 / static_cast<int64_t>(sizeof(T));
    using Bytes = Vector<uint64_t>;
    int64_t j = 0;
    for (; streams_ && j + kPiece <= columns; j += kPiece) {
      alignas(64) T piece[kPiece];
      store_terms(piece, sums + j, kPiece);
      for (size_t at = 0; at < sizeof(piece); at += sizeof(Bytes)) {
        uint64_t words[Bytes::kCount];
        memcpy(words, reinterpret_cast<const char*>(piece) + at, sizeof(words));
        char* to = reinterpret_cast<char*>(output + j) + at;
        stream_vector(reinterpret_cast<uint64_t*>(to), load_vector(words));
      }
    }
    store_terms(output + j, sums + j, columns - j);
  }

  static constexpr int64_t kSlack = kConvolveSlack / static_cast<int64_t>(sizeof(Summand<T>));

  const ConvolveParams& p_;
  const ConvolvePlan& plan_;
  char* memory_;
  const Summand<T>** pointers_;
  Summand<T>* fill_row_;
  Summand<T>* sums_;
  Summand<T>* ring_;
  Weight<Summand<T>>* weights_;
  bool streams_;  // the output
  int64_t rows_;  // of a band: what a block sums, if there are as many
  BlockTerms<Summand<T>> terms_;
  const T* packed_ = nullptr;  // the kernel that weights_ has
};

void convolve2d_kernel(const ConvolveParams& given, Workspace& workspace) {
  const ConvolvePlan plan = plan_convolve2d(given, workspace.threads());
  const ConvolveParams p = plan.transposes ? transposed(given) : given;
  char* scratch = allocate<char>(workspace, plan.scratch_bytes);
  with_convolve_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel_for(workspace, plan.parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        Part<T>(p, plan, scratch + part * plan.layout.bytes).run(part);
      }
    });
  });
}

const bool registered = convolve2d_stub.set(kIsaSlot, convolve2d_kernel);

}  // namespace
}  // namespace visops
