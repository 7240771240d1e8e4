// Masks to runs on the CPU.
//
// NOTE [ Runs on the CPU ]
// Strategy: runs go down columns, and masks are stored by rows, so masks are turned while they are
// bits. Blocks of 64 x 64 pixels that are equal need no turning, and strips of 64 columns without
// any change are passed over. What is left is turned in registers, and the ends of runs are the
// bits in which a column differs from itself, one row higher.
//
// A group of masks at a time: they are packed if they come as pixels, and their runs are counted,
// by sums over words that need no turning; then runs are written, while bits are in the cache. So
// pixels are read once.
//
// Split: tasks have masks of the group.
//
// Assumes fewer than 2^31 pixels a mask. Bits past the width are ignored.
#include <cstdint>
#include <cstring>

#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "core/masks/rle.h"
#include "core/platform.h"
#include "cpu/masks/pack_rows.h"
#include "cpu/masks/partition.h"
#include "cpu/simd/bits.h"
#include "cpu/simd/transpose_bits.h"

namespace visops {
namespace {

// Masks as bits, in blocks of 64 rows by 64 columns that can be turned.

constexpr int64_t kBlockRows = 64;

// One mask.
struct BitImage {
  const uint64_t* bits;  // [height, words]
  int64_t height, width, words;

  int64_t blocks() const { return (height + kBlockRows - 1) / kBlockRows; }
  int64_t rows_of(int64_t block) const {
    const int64_t rows = height - block * kBlockRows;
    return rows < kBlockRows ? rows : kBlockRows;
  }
  int64_t columns_of(int64_t word) const {
    const int64_t columns = width - word * kPixelsPerWord;
    return columns < kPixelsPerWord ? columns : kPixelsPerWord;
  }
  // The bits of a word that are columns.
  uint64_t valid(int64_t word) const { return ~uint64_t{0} >> (kPixelsPerWord - columns_of(word)); }
  const uint64_t* row(int64_t y) const { return bits + y * words; }
};

enum class BlockKind : uint8_t { kEmpty, kFull, kMixed };

// What a block has in the rows of each word, and how many pixels differ from the one above, in the
// block before too. `differs` is scratch for a word of each column.
inline int64_t find_kinds(const BitImage& image, int64_t block, uint64_t* differs,
                          BlockKind* kinds) {
  const int64_t words = image.words, rows = image.rows_of(block);
  const uint64_t* first = image.row(block * kBlockRows);
  uint64_t* VISOPS_RESTRICT any = differs;
  for (int64_t w = 0; w < words; ++w) any[w] = 0;
  for (int64_t k = 1; k < rows; ++k) {
    const uint64_t *row = first + k * words, *above = row - words;
    for (int64_t w = 0; w < words; ++w) any[w] |= row[w] ^ above[w];
  }
  int64_t changes = 0;
  for (int64_t w = 0; w < words; ++w) {
    const uint64_t valid = image.valid(w), top = first[w] & valid;
    if (block > 0) changes += count_bits(top ^ (first[w - words] & valid));
    const bool is_even = (any[w] & valid) == 0;
    kinds[w] = !is_even       ? BlockKind::kMixed
               : top == 0     ? BlockKind::kEmpty
               : top == valid ? BlockKind::kFull
                              : BlockKind::kMixed;
    if (is_even) continue;
    const uint64_t* at = first + w;
    for (int64_t k = 1; k < rows; ++k) {
      changes += count_bits((at[k * words] ^ at[(k - 1) * words]) & valid);
    }
  }
  return changes;
}

constexpr int64_t kGroupBytes = 1 << 18;  // of bits for each task

// Pixels of the first row that differ from the last one of the column on their left.
int64_t changes_at_top(const BitImage& image) {
  const uint64_t *first = image.row(0), *last = image.row(image.height - 1);
  int64_t changes = 0;
  uint64_t before = 0;
  for (int64_t w = 0; w < image.words; ++w) {
    changes += count_bits((first[w] ^ (last[w] << 1 | before)) & image.valid(w));
    before = last[w] >> 63;
  }
  return changes;
}

// Turns a word of a block's rows.
void turn_column(const BitImage& image, int64_t block, int64_t word, uint64_t* to) {
  const uint64_t* from = image.row(block * kBlockRows) + word;
  const int64_t rows = image.rows_of(block);
  if (rows == kBlockRows) return turn_block(from, image.words, to);
  uint64_t padded[kBlockRows] = {};
  for (int64_t k = 0; k < rows; ++k) padded[k] = from[k * image.words];
  turn_block(padded, 1, to);
}

// Rows of a strip of 64 columns: mixed ones of a block, or equal ones of all blocks up to the next
// part.
struct StripPart {
  uint64_t* words;  // [64] a column each: the rows of a mixed part, then where the runs end
  uint64_t value;   // of an even part
  int64_t row, rows;
  bool is_mixed;
};

// Finds the parts of a strip, from top to bottom; turns what is mixed.
int64_t strip_parts(const BitImage& image, const BlockKind* kinds, int64_t word, uint64_t* words,
                    StripPart* parts) {
  int64_t count = 0;
  for (int64_t b = 0; b < image.blocks(); ++b) {
    const BlockKind kind = kinds[b * image.words + word];
    const int64_t row = b * kBlockRows;
    uint64_t* to = words + row;
    if (kind == BlockKind::kMixed) {
      turn_column(image, b, word, to);
      parts[count++] = {to, 0, row, image.rows_of(b), true};
      continue;
    }
    const uint64_t value = kind == BlockKind::kFull ? 1 : 0;
    const StripPart* above = parts + count - 1;
    if (count == 0 || above->is_mixed || above->value != value) {
      // Only its first row can differ from the one above.
      parts[count++] = {to, value, row, 1, false};
    }
  }
  return count;
}

// The last rows of a part, one bit for each column.
void last_rows(const StripPart& part, uint64_t* VISOPS_RESTRICT last) {
  for (int64_t x = 0; x < kPixelsPerWord; ++x) {
    last[x] = part.is_mixed ? part.words[x] >> (part.rows - 1) & 1 : part.value;
  }
}

// Replaces a part's rows by a bit for each one that differs from the one above; `above` are the
// bits of the row over the part.
void find_changes(const StripPart& part, const uint64_t* VISOPS_RESTRICT above) {
  uint64_t* VISOPS_RESTRICT words = part.words;
  if (!part.is_mixed) {
    for (int64_t x = 0; x < kPixelsPerWord; ++x) words[x] = part.value ^ above[x];
    return;
  }
  const uint64_t valid = ~uint64_t{0} >> (kBlockRows - part.rows);
  for (int64_t x = 0; x < kPixelsPerWord; ++x) {
    words[x] = (words[x] ^ (words[x] << 1 | above[x])) & valid;
  }
}

// A task's memory for writing.
struct StripScratch {
  StripPart* parts;  // [blocks]
  uint64_t* words;   // [blocks, 64]

  static int64_t bytes(int64_t blocks) {
    return blocks * static_cast<int64_t>(sizeof(StripPart) + kBlockRows * sizeof(uint64_t));
  }
  static StripScratch at(char* memory, int64_t blocks) {
    StripScratch scratch;
    scratch.words = reinterpret_cast<uint64_t*>(memory);
    scratch.parts = reinterpret_cast<StripPart*>(scratch.words + blocks * kBlockRows);
    return scratch;
  }
};

// Writes where the runs of a strip's columns end. `before` is the last pixel of the column on the
// left. Most words have one change or none, and nothing could predict which, so the place of the
// next one is written anyway. There is one: the end of the mask comes last.
int32_t* write_strip(const BitImage& image, int64_t word, const StripPart* parts, int64_t count,
                     uint64_t* before, int32_t* to) {
  constexpr uint64_t kHighest = uint64_t{1} << 63;  // for lowest_bit(), which wants one
  const int64_t first = word * kPixelsPerWord, columns = image.columns_of(word);
  uint64_t above[kPixelsPerWord + 1];
  last_rows(parts[count - 1], above + 1);
  above[0] = *before;
  *before = above[columns];
  // From the bottom up, since changes take the place of rows.
  for (int64_t k = count - 1; k > 0; --k) {
    uint64_t last[kPixelsPerWord];
    last_rows(parts[k - 1], last);
    find_changes(parts[k], last);
  }
  find_changes(parts[0], above);
  for (int64_t x = 0; x < columns; ++x) {
    const int64_t top = (first + x) * image.height;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t position = top + parts[k].row;
      uint64_t changes = parts[k].words[x];
      *to = static_cast<int32_t>(position + lowest_bit(changes | kHighest));
      to += changes != 0 ? 1 : 0;
      for (changes &= changes - 1; changes != 0; changes &= changes - 1) {
        *to++ = static_cast<int32_t>(position + lowest_bit(changes));
      }
    }
  }
  return to;
}

void write_runs(const BitImage& image, const BlockKind* kinds, const StripScratch& scratch,
                int32_t* to) {
  uint64_t before = 0;
  for (int64_t w = 0; w < image.words; ++w) {
    const int64_t count = strip_parts(image, kinds, w, scratch.words, scratch.parts);
    const StripPart* parts = scratch.parts;
    if (count == 1 && !parts->is_mixed) {
      *to = static_cast<int32_t>(w * kPixelsPerWord * image.height);
      to += parts->value ^ before;
      before = parts->value;
      continue;
    }
    to = write_strip(image, w, parts, count, &before, to);
  }
  *to = static_cast<int32_t>(image.height * image.width);
}

// Memory that grows.
class Ends {
 public:
  explicit Ends(Workspace& workspace) : workspace_(workspace) {}

  int32_t* data() const { return data_; }

  void reserve(int64_t used, int64_t needed) {
    if (needed <= capacity_) return;
    const int64_t capacity = needed > 2 * capacity_ ? needed : 2 * capacity_;
    int32_t* larger = allocate<int32_t>(workspace_, capacity);
    if (used > 0) std::memcpy(larger, data_, static_cast<size_t>(used) * sizeof(int32_t));
    data_ = larger;
    capacity_ = capacity;
  }

 private:
  Workspace& workspace_;
  int32_t* data_ = nullptr;
  int64_t capacity_ = 0;
};

// Packs a mask, unless `pixels` is null; finds the kinds of its blocks; returns how many runs it
// has.
int64_t scan_mask(const uint8_t* pixels, uint64_t* packed, const BitImage& image, uint64_t* differs,
                  BlockKind* kinds) {
  int64_t changes = 0;
  for (int64_t b = 0; b < image.blocks(); ++b) {
    if (pixels != nullptr) {
      const int64_t row = b * kBlockRows;
      pack_rows(pixels + row * image.width, image.rows_of(b), image.width,
                (image.height - row) * image.width, packed + row * image.words);
    }
    changes += find_kinds(image, b, differs, kinds + b * image.words);
  }
  return changes + changes_at_top(image) + 1;
}

void masks_to_runs_kernel(const MasksToRunsParams& p, Workspace& workspace) {
  const int64_t words = words_of(p.width), size = p.height * words, pixels = p.height * p.width;
  const BitImage shape = {nullptr, p.height, p.width, words};
  const int64_t blocks = shape.blocks();
  const int64_t tasks = mask_tasks(p.count, p.height, p.width, workspace);
  const int64_t each = tasks_within(p.count, kGroupBytes / (size * 8)), group = each * tasks;
  const bool packs = p.bits == nullptr;
  uint64_t* packed = packs ? allocate<uint64_t>(workspace, group * size) : nullptr;
  BlockKind* kinds = allocate<BlockKind>(workspace, group * blocks * words);
  uint64_t* differs = allocate<uint64_t>(workspace, tasks * words);
  const int64_t scratch_bytes = StripScratch::bytes(blocks);
  char* scratch = allocate<char>(workspace, tasks * scratch_bytes);
  Ends ends(workspace);
  p.offsets[0] = 0;
  for (int64_t first = 0; first < p.count; first += group) {
    const int64_t masks = p.count - first < group ? p.count - first : group;
    const int64_t parts = masks < tasks ? masks : tasks;
    const auto image = [&](int64_t i) {
      BitImage one = shape;
      one.bits = packs ? packed + i * size : p.bits + (first + i) * size;
      return one;
    };
    for_each_task(masks, parts, workspace, [&](int64_t task, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        p.offsets[first + i + 1] = scan_mask(packs ? p.pixels + (first + i) * pixels : nullptr,
                                             packed + (packs ? i * size : 0), image(i),
                                             differs + task * words, kinds + i * blocks * words);
      }
    });
    for (int64_t i = first; i < first + masks; ++i) p.offsets[i + 1] += p.offsets[i];
    ends.reserve(p.offsets[first], p.offsets[first + masks]);
    for_each_task(masks, parts, workspace, [&](int64_t task, int64_t begin, int64_t end) {
      const StripScratch own = StripScratch::at(scratch + task * scratch_bytes, blocks);
      for (int64_t i = begin; i < end; ++i) {
        write_runs(image(i), kinds + i * blocks * words, own, ends.data() + p.offsets[first + i]);
      }
    });
  }
  const auto bytes = static_cast<size_t>(p.offsets[p.count]) * sizeof(int32_t);
  std::memcpy(p.make_ends(p.context), ends.data(), bytes);
}

const bool registered = masks_to_runs_stub.set(kIsaSlot, masks_to_runs_kernel);

}  // namespace
}  // namespace visops
