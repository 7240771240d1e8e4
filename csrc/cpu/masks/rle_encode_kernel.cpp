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
#include <cstring>

#include "core/masks/rle.h"
#include "core/workspace.h"
#include "cpu/masks/bit_blocks.h"
#include "cpu/masks/split.h"
#include "cpu/simd/bits.h"
#include "cpu/simd/popcount.h"

namespace visops {
namespace {

constexpr int64_t kGroupBytes = 1 << 18;  // of bits for each task

// Changes between the rows of a mask in bits past its width.
int64_t foreign_changes(const BitImage& image) {
  const uint64_t foreign = ~image.valid(image.words - 1);
  if (foreign == 0) return 0;
  const uint64_t* last = image.bits + image.words - 1;
  int64_t changes = 0;
  for (int64_t y = 1; y < image.height; ++y) {
    changes += count_bits((last[y * image.words] ^ last[(y - 1) * image.words]) & foreign);
  }
  return changes;
}

int64_t count_runs(const BitImage& image, bool has_foreign_bits) {
  const int64_t words = image.words, above = (image.height - 1) * words;
  const uint64_t *first = image.row(0), *last = image.row(image.height - 1);
  // Bits that differ from the row above: those of one of the rows, but not of both.
  int64_t changes = count_common(image.bits, image.bits, above) +
                    count_common(image.bits + words, image.bits + words, above) -
                    2 * count_common(image.bits, image.bits + words, above);
  if (has_foreign_bits) changes -= foreign_changes(image);
  uint64_t before = 0;
  for (int64_t w = 0; w < words; ++w) {
    changes += count_bits((first[w] ^ (last[w] << 1 | before)) & image.valid(w));
    before = last[w] >> 63;
  }
  return changes + 1;
}

// Copies a word of a block's rows and turns them.
void turn_column(const BitImage& image, int64_t block, int64_t word, uint64_t* to) {
  const uint64_t* from = image.row(block * kBlockRows) + word;
  const int64_t rows = image.rows_of(block);
  for (int64_t k = 0; k < rows; ++k) to[k] = from[k * image.words];
  for (int64_t k = rows; k < kBlockRows; ++k) to[k] = 0;
  turn_block(to);
}

struct RunWriter {
  int32_t* to;
  uint64_t before;  // the last pixel

  // Rows of a column, from a position on.
  VISOPS_ALWAYS_INLINE void add(uint64_t rows, int64_t count, int64_t position) {
    uint64_t changes = rows ^ (rows << 1 | before);
    if (count < kBlockRows) changes &= (uint64_t{1} << count) - 1;
    before = rows >> (count - 1) & 1;
    for (; changes != 0; changes &= changes - 1) {
      *to++ = static_cast<int32_t>(position + lowest_bit(changes));
    }
  }
};

// Whether all blocks of a strip are of one kind, empty or full.
bool is_even(const BlockKind* kinds, int64_t blocks, int64_t words) {
  for (int64_t b = 1; b < blocks; ++b) {
    if (kinds[b * words] != kinds[0]) return false;
  }
  return kinds[0] != BlockKind::kMixed;
}

// `turned` has room for a word of each row, up to whole blocks.
void write_runs(const BitImage& image, const BlockKinds& found, uint64_t* turned, int32_t* ends) {
  const int64_t blocks = image.blocks(), height = image.height;
  found.find(image);
  RunWriter writer = {ends, 0};
  for (int64_t w = 0; w < image.words; ++w) {
    const BlockKind* kinds = found.kinds + w;
    const int64_t first = w * kPixelsPerWord, columns = image.columns_of(w);
    if (is_even(kinds, blocks, image.words)) {
      const uint64_t value = kinds[0] == BlockKind::kFull ? 1 : 0;
      if (value != writer.before) *writer.to++ = static_cast<int32_t>(first * height);
      writer.before = value;
      continue;
    }
    for (int64_t b = 0; b < blocks; ++b) {
      uint64_t* to = turned + b * kBlockRows;
      if (kinds[b * image.words] == BlockKind::kMixed) {
        turn_column(image, b, w, to);
      } else {
        std::memset(to, kinds[b * image.words] == BlockKind::kFull ? 0xff : 0,
                    kBlockRows * sizeof(uint64_t));
      }
    }
    for (int64_t x = 0; x < columns; ++x) {
      const int64_t position = (first + x) * height;
      for (int64_t b = 0; b + 1 < blocks; ++b) {
        writer.add(turned[b * kBlockRows + x], kBlockRows, position + b * kBlockRows);
      }
      const int64_t b = blocks - 1;
      writer.add(turned[b * kBlockRows + x], image.rows_of(b), position + b * kBlockRows);
    }
  }
  *writer.to = static_cast<int32_t>(height * image.width);
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

void pack_mask(const uint8_t* pixels, const BitImage& image, uint64_t* bits) {
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t w = 0; w < image.words; ++w) {
      const int64_t first = w * kPixelsPerWord;
      bits[y * image.words + w] =
          nonzero_bits(pixels + y * image.width + first, image.width - first);
    }
  }
}

void masks_to_runs_kernel(const MasksToRunsParams& p, Workspace& workspace) {
  const int64_t words = words_of(p.width), size = p.height * words;
  const int64_t tasks = mask_tasks(p.count, p.height, p.width, workspace);
  const int64_t each = tasks_within(p.count, kGroupBytes / (size * 8)), group = each * tasks;
  const BitImage shape = {nullptr, p.height, p.width, words};
  const bool packs = p.bits == nullptr;
  uint64_t* packed = packs ? allocate<uint64_t>(workspace, group * size) : nullptr;
  const int64_t kind_bytes = (BlockKinds::bytes(shape) + 7) / 8 * 8;
  char* kinds = allocate<char>(workspace, tasks * kind_bytes);
  const int64_t turned_words = shape.blocks() * kBlockRows;
  uint64_t* turned = allocate<uint64_t>(workspace, tasks * turned_words);
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
    for_each_task(masks, parts, workspace, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (packs) {
          pack_mask(p.pixels + (first + i) * p.height * p.width, shape, packed + i * size);
        }
        p.offsets[first + i + 1] = count_runs(image(i), !packs);
      }
    });
    for (int64_t i = first; i < first + masks; ++i) p.offsets[i + 1] += p.offsets[i];
    ends.reserve(p.offsets[first], p.offsets[first + masks]);
    for_each_task(masks, parts, workspace, [&](int64_t task, int64_t begin, int64_t end) {
      const BlockKinds found = BlockKinds::at(kinds + task * kind_bytes, shape);
      for (int64_t i = begin; i < end; ++i) {
        write_runs(image(i), found, turned + task * turned_words,
                   ends.data() + p.offsets[first + i]);
      }
    });
  }
  const int64_t runs = p.offsets[p.count];
  std::memcpy(p.make_ends(p.context), ends.data(), static_cast<size_t>(runs) * sizeof(int32_t));
}

const bool registered = masks_to_runs_stub.set(kIsaSlot, masks_to_runs_kernel);

}  // namespace
}  // namespace visops
