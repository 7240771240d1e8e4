// The boundaries of masks, on the CPU.
//
// NOTE [ Boundaries on the CPU ]
// Erosion keeps a pixel if all pixels of a window are inside. Windows grow by doubling: that of 2 n
// pixels is two adjacent ones of n, and the last step joins two that overlap. Within a row a window
// is a shift of words; rows are joined word by word. Everything happens in the result's memory:
// what a step overwrites has been read. Split: by masks.
#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "core/masks/boundary.h"
#include "core/masks/packed.h"

namespace visops {
namespace {

// The 64 bits of a row from bit `first` on, which may lie outside; 0 there.
VISOPS_ALWAYS_INLINE uint64_t bits_from(const uint64_t* row, int64_t words, int64_t word,
                                        int shift) {
  const uint64_t low = word >= 0 && word < words ? row[word] : 0;
  if (shift == 0) return low;
  const uint64_t high = word + 1 >= 0 && word + 1 < words ? row[word + 1] : 0;
  return low >> shift | high << (kPixelsPerWord - shift);
}

// Each pixel and the one `step` pixels after it.
void join_columns(uint64_t* row, int64_t words, int64_t step) {
  const int64_t skipped = step / kPixelsPerWord;
  const int shift = static_cast<int>(step % kPixelsPerWord);
  for (int64_t w = 0; w < words; ++w) row[w] &= bits_from(row, words, w + skipped, shift);
}

// Moves pixels `step` columns on.
void move_columns(uint64_t* row, int64_t words, int64_t step) {
  const int64_t skipped = (step + kPixelsPerWord - 1) / kPixelsPerWord;
  const int shift = static_cast<int>(skipped * kPixelsPerWord - step);
  for (int64_t w = words - 1; w >= 0; --w) row[w] = bits_from(row, words, w - skipped, shift);
}

// Calls join(step) until windows of one pixel have grown to `size`.
template <class Join>
void grow_windows(int64_t size, const Join& join) {
  int64_t grown = 1;
  for (; 2 * grown <= size; grown *= 2) join(grown);
  if (grown < size) join(size - grown);
}

void find_boundary(const BoundaryParams& p, const uint64_t* VISOPS_RESTRICT bits,
                   uint64_t* VISOPS_RESTRICT out) {
  const int64_t size = 2 * p.distance + 1, words = p.words;
  for (int64_t y = 0; y < p.height; ++y) {
    uint64_t* row = out + y * words;
    for (int64_t w = 0; w < words; ++w) row[w] = bits[y * words + w];
    grow_windows(size, [&](int64_t step) { join_columns(row, words, step); });
    move_columns(row, words, p.distance);
  }
  grow_windows(size, [&](int64_t step) {
    const int64_t joined = p.height > step ? (p.height - step) * words : 0;
    for (int64_t i = 0; i < joined; ++i) out[i] &= out[i + step * words];
    for (int64_t i = joined; i < p.height * words; ++i) out[i] = 0;
  });
  const int64_t moved = p.distance * words;
  for (int64_t i = p.height * words - 1; i >= 0; --i) {
    out[i] = bits[i] & ~(i >= moved ? out[i - moved] : 0);
  }
}

void boundary_kernel(const BoundaryParams& p, Workspace& workspace) {
  const int64_t size = p.height * p.words;
  parallel_for(workspace, p.count, grain_of(size * 16), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      find_boundary(p, p.bits + k * size, p.boundaries + k * size);
    }
  });
}

const bool registered = boundary_stub.set(kIsaSlot, boundary_kernel);

}  // namespace
}  // namespace visops
