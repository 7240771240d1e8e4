// How masks are shared among threads.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "core/platform.h"
#include "cpu/masks/pack_rows.h"
#include "cpu/simd/bits.h"

namespace visops {
namespace {

constexpr int64_t kTaskPixels = 65536;  // fewer cost more to hand out than they save

// `tasks`, but at least 1 and at most `limit`.
inline int64_t tasks_within(int64_t limit, int64_t tasks) {
  const int64_t least = tasks > 1 ? tasks : 1;
  return least < limit ? least : limit;
}

// How many tasks share `count` masks.
inline int64_t mask_tasks(int64_t count, int64_t height, int64_t width, Workspace& workspace) {
  const int64_t limit = count < workspace.threads() ? count : workspace.threads();
  return tasks_within(limit, count * (height * width / kTaskPixels + 1));
}

// How many tasks share the rows of a mask where masks go one after another; 1 where it is better
// to give each task whole masks.
inline int64_t mask_bands(int64_t count, int64_t height, int64_t width, Workspace& workspace) {
  if (count >= workspace.threads()) return 1;
  const int64_t limit = height < workspace.threads() ? height : workspace.threads();
  return tasks_within(limit, height * width / kTaskPixels);
}

// Calls body(task, begin, end) for the masks of each task, which are adjacent.
template <class Body>
void for_each_task(int64_t count, int64_t tasks, Workspace& workspace, const Body& body) {
  parallel_for(workspace, tasks, 1, [&](int64_t first, int64_t last) {
    body(first, count * first / tasks, count * last / tasks);
  });
}

template <class Body>
VISOPS_NOINLINE void call_task(const Body& body, int64_t task, int64_t begin, int64_t end) {
  body(task, begin, end);
}

// The same for a long body. parallel_for calls its body in two places: here it is compiled once,
// which halves the largest kernels.
template <class Body>
void for_each_long_task(int64_t count, int64_t tasks, Workspace& workspace, const Body& body) {
  for_each_task(count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    call_task(body, task, begin, end);
  });
}

// Rows of label maps as runs of equal pixels.

// Runs of equal pixels that are not 0.
template <class T>
struct LabelRows {
  const T* pixels;  // [height, width]
  int64_t width;

  // Writes the columns [edges[0], edges[1]), [edges[2], edges[3]), ... that the runs of row y
  // cover; returns one past the last edge.
  int32_t* edges(int64_t y, int32_t* edges) const {
    const T* row = pixels + y * width;
    T before = 0;
    bool open = false;
    for (int64_t first = 0; first < width; first += kWordBits) {
      const int64_t count = width - first < kWordBits ? width - first : kWordBits;
      uint8_t differs[kWordBits];
      differs[0] = row[first] != before;
      for (int64_t i = 1; i < count; ++i) differs[i] = row[first + i] != row[first + i - 1];
      before = row[first + count - 1];
      uint64_t changes = nonzero_bits(differs, count);
      for (; changes != 0; changes &= changes - 1) {
        const auto x = static_cast<int32_t>(first + lowest_bit(changes));
        if (open) *edges++ = x;
        open = row[x] != 0;
        if (open) *edges++ = x;
      }
    }
    if (open) *edges++ = static_cast<int32_t>(width);
    return edges;
  }

  // Whether two pixels that lie in runs have equal values.
  bool same(int64_t y, int32_t x, int64_t other_y, int32_t other_x) const {
    return pixels[y * width + x] == pixels[other_y * width + other_x];
  }
};

// Masks as kernels compare them: whole, or the part that has pixels.
//
// NOTE [ Parts of masks ]
// Masks that come as pixels are packed one after another into memory that stays in the cache. Kept
// are the rows of their box and, of narrow masks, its words; the rest of the memory for them is
// never touched, so it costs nothing. A mask is narrow if its box has at most a quarter of a row's
// words. Pairs with a narrow mask are counted row by row, others by whole rows.

inline bool is_narrow(int64_t words_of_box, int64_t words) { return words_of_box * 4 <= words; }

// Rows of a mask from `y1` on, and words of them from `begin` on. Those left out are 0.
struct MaskPart {
  const uint64_t* bits;
  int64_t stride, y1, begin;
  const uint64_t* at(int64_t y, int64_t word) const {
    return bits + (y - y1) * stride + (word - begin);
  }
};

inline MaskPart whole_mask(const uint64_t* bits, int64_t words) { return {bits, words, 0, 0}; }

// Counts the pixels that two masks share, in the part that both boxes cover.
inline int64_t common_pixels(const MaskPart& first, const MaskPart& second, int64_t words,
                             const CommonWords& common) {
  const int64_t width = common.end - common.begin, rows = common.y2 - common.y1;
  if (width <= 0) return 0;
  // Words one by one take about four times as long.
  if (!is_narrow(width, words)) {
    return count_common(first.at(common.y1, 0), second.at(common.y1, 0), rows * words);
  }
  const uint64_t* a = first.at(common.y1, common.begin);
  const uint64_t* b = second.at(common.y1, common.begin);
  int64_t count = 0;
  for (int64_t y = 0; y < rows; ++y, a += first.stride, b += second.stride) {
    for (int64_t w = 0; w < width; ++w) count += count_bits(a[w] & b[w]);
  }
  return count;
}

// The position of the highest bit of a word that is not 0.
inline int highest_bit(uint64_t word) {
#if defined(__GNUC__)
  return 63 - __builtin_clzll(word);
#else
  int position = 0;
  for (; word > 1; word >>= 1) ++position;
  return position;
#endif
}

// A mask as its rows are read.
class MaskExtent {
 public:
  // `columns` is scratch for a word of each column.
  MaskExtent(uint64_t* columns, int64_t words) : columns_(columns), words_(words) {
    memset(columns, 0, static_cast<size_t>(words) * sizeof(uint64_t));
  }

  int64_t area = 0;

  // Rows come in order.
  VISOPS_ALWAYS_INLINE void add(int64_t y, int64_t w, uint64_t word) {
    if (word == 0) return;
    columns_[w] |= word;
    area += count_bits(word);
    y1_ = y2_ == 0 ? y : y1_;
    y2_ = y + 1;
  }

  MaskBox box() const {
    MaskBox box = {0, y1_, 0, y2_};
    for (int64_t w = 0; w < words_; ++w) {
      if (columns_[w] == 0) continue;
      if (box.x2 == 0) box.x1 = w * kPixelsPerWord + lowest_bit(columns_[w]);
      box.x2 = w * kPixelsPerWord + highest_bit(columns_[w]) + 1;
    }
    return box;
  }

 private:
  uint64_t* columns_;
  int64_t words_, y1_ = 0, y2_ = 0;
};

// Calls word(y, w, bits) for the words of a mask that may have pixels. `readable` pixels may be
// read from the first on.
template <class Word>
VISOPS_ALWAYS_INLINE void read_mask(const uint8_t* pixels, int64_t height, int64_t width,
                                    int64_t readable, const Word& word) {
  for (int64_t y = 0; y < height; ++y) {
    read_row(
        pixels + y * width, width, readable - y * width, [](int64_t) {},
        [&](int64_t w, uint64_t bits) { word(y, w, bits); });
  }
}

// Masks [count, height, width] in parts.
struct MaskParts {
  MaskPart* parts;
  int64_t* areas;
  MaskBox* boxes;
};

// Packs a mask into `rows`, scratch [height, words] that is 0 before and after, and keeps its part
// in memory from `to` on. Returns the words that it takes.
inline int64_t pack_part(const uint8_t* pixels, int64_t height, int64_t width, int64_t readable,
                         uint64_t* rows, MaskExtent& extent, MaskPart* part, uint64_t* to) {
  const int64_t words = words_of(width);
  read_mask(pixels, height, width, readable, [&](int64_t y, int64_t w, uint64_t word) {
    rows[y * words + w] = word;
    extent.add(y, w, word);
  });
  const MaskBox box = extent.box();
  const int64_t begin = box.x1 / kPixelsPerWord, own = words_of(box.x2) - begin;
  const bool narrow = is_narrow(own, words);
  *part = {to, narrow ? own : words, box.y1, narrow ? begin : 0};
  const int64_t size = (box.y2 - box.y1) * part->stride;
  for (int64_t y = box.y1; y < box.y2; ++y, to += part->stride) {
    uint64_t* row = rows + y * words;
    memcpy(to, row + part->begin, static_cast<size_t>(part->stride) * sizeof(uint64_t));
    memset(row, 0, static_cast<size_t>(words) * sizeof(uint64_t));
  }
  return size;
}

inline MaskParts pack_parts(const uint8_t* pixels, int64_t count, int64_t height, int64_t width,
                            Workspace& workspace) {
  const int64_t words = words_of(width), size = height * words;
  const int64_t tasks = mask_tasks(count, height, width, workspace), scratch = size + words;
  const MaskParts found = {allocate<MaskPart>(workspace, count),
                           allocate<int64_t>(workspace, count),
                           allocate<MaskBox>(workspace, count)};
  uint64_t* kept = allocate<uint64_t>(workspace, count * size);
  uint64_t* memory = allocate<uint64_t>(workspace, tasks * scratch);
  for_each_task(count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    uint64_t *rows = memory + task * scratch, *columns = rows + size, *to = kept + begin * size;
    memset(rows, 0, static_cast<size_t>(size) * sizeof(uint64_t));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * height * width;
      MaskExtent extent(columns, words);
      to += pack_part(pixels + first, height, width, count * height * width - first, rows, extent,
                      found.parts + i, to);
      found.areas[i] = extent.area;
      found.boxes[i] = extent.box();
    }
  });
  return found;
}

}  // namespace
}  // namespace visops
