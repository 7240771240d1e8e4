// Runs to masks as bits, on the CPU.
//
// NOTE [ Masks of runs on the CPU ]
// Strategy: a run sets bits where its columns change, at most two and a range of the first row.
// Then each row is added to the one above, bit by bit, without carries. The order of runs does not
// matter.
//
// Split: by masks. Assumes offsets that rise from 0 to the number of runs.
#include "core/masks/packed.h"
#include "core/masks/rle.h"
#include "cpu/items.h"

namespace visops {
namespace {

void flip_columns(uint64_t* row, int64_t begin, int64_t end) {
  const int64_t first = begin / kPixelsPerWord, last = (end - 1) / kPixelsPerWord;
  for (int64_t w = first; w <= last; ++w) {
    const int64_t from = w == first ? begin - first * kPixelsPerWord : 0;
    const int64_t to = w == last ? end - last * kPixelsPerWord : kPixelsPerWord;
    row[w] ^= (~uint64_t{0} << from) & (~uint64_t{0} >> (kPixelsPerWord - to));
  }
}

void add_row(const uint64_t* VISOPS_RESTRICT above, uint64_t* VISOPS_RESTRICT row, int64_t words) {
  for (int64_t w = 0; w < words; ++w) row[w] ^= above[w];
}

void runs_to_bits_range(const RunsToBitsParams& p, int64_t begin, int64_t end) {
  const int64_t words = words_of(p.width), pixels = p.height * p.width;
  for (int64_t i = begin; i < end; ++i) {
    uint64_t* bits = p.bits + i * p.height * words;
    for (int64_t at = 0; at < p.height * words; ++at) bits[at] = 0;
    const int32_t* ends = p.ends + p.offsets[i];
    for (int64_t k = 1; k < p.offsets[i + 1] - p.offsets[i]; k += 2) {
      const RunOfPixels run = {run_end(ends, k - 1, pixels), run_end(ends, k, pixels)};
      flips_of_run(run, p.height, [&](int64_t x1, int64_t x2, int64_t y) {
        flip_columns(bits + y * words, x1, x2);
      });
    }
    for (int64_t y = 1; y < p.height; ++y) {
      add_row(bits + (y - 1) * words, bits + y * words, words);
    }
  }
}

void runs_to_bits_kernel(const RunsToBitsParams& p, Workspace& workspace) {
  for_items(workspace, p, p.count, p.height * words_of(p.width), runs_to_bits_range);
}

const bool registered = runs_to_bits_stub.set(kIsaSlot, runs_to_bits_kernel);

}  // namespace
}  // namespace visops
