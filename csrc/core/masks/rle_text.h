// COCO's text for the runs of masks, and what is computed from runs on the host.
//
// NOTE [ Run-length text ]
// Format: cocodataset/cocoapi, common/maskApi.c, rleToString. A count is written as a signed
// number, five bits a character, lowest first: '0' plus the bits, plus 32 where more follow. From
// the fourth count on, the number is the difference to the count two before.
#pragma once

#include <cstdint>
#include <vector>

namespace visops {

// Runs of masks one after another: NOTE [ Runs of masks ].
struct RunLists {
  const int32_t* ends;     // [offsets[count]]
  const int64_t* offsets;  // [count + 1]
  int64_t count;
};

constexpr int64_t kMostCharacters = 7;  // of a count below 2^31

// Writes the texts of all masks, one after another, and [count + 1] where they begin.
void write_run_text(const RunLists& runs, char* text, int64_t* text_offsets);

// What is wrong with the counts of an entry; ops/masks/rle.py has the sentences.
enum class RunError : int {
  kNone,
  kCharacter,   // detail: its position
  kTruncated,   // detail: the position of the number's first character
  kLongNumber,  // detail: the position of its first character
  kNegative,    // detail: the count
  kSum,         // detail: the sum, or one that is too large already
};

struct RunFailure {
  RunError error;
  int64_t entry, detail;
};

// Reads texts into `ends`, which has room for as many as there are characters, and [count + 1]
// offsets. `pixels` are the sums that counts must have. Stops at the first failure.
RunFailure read_run_text(const char* text, const int64_t* text_offsets, const int64_t* pixels,
                         int64_t count, int32_t* ends, int64_t* offsets);

// The same for counts as numbers; offsets are the counts' own.
RunFailure read_run_counts(const int64_t* counts, const int64_t* offsets, const int64_t* pixels,
                           int64_t count, int32_t* ends);

// Texts of masks, one after another.
struct RunTexts {
  const char* text;
  const int64_t* lengths;  // [count] characters
  const int64_t* pixels;   // [count]
  int64_t count;
};

void run_areas(const RunLists& runs, int64_t* areas);
// Returns whether the texts are counts of so many pixels; read_run_text() says what is wrong.
bool text_areas(const RunTexts& texts, int64_t* areas);

// Overlaps [a.count, b.count] of masks whose columns have `height` pixels: intersection over union,
// or over the area of a's mask where `crowd` [b.count] is not 0. 0 where nothing is in common.
void run_overlaps(const RunLists& a, const RunLists& b, const uint8_t* crowd, int64_t height,
                  double* overlaps);
// The same from texts; `b` may be `a`. Returns what text_areas() does.
bool text_overlaps(const RunTexts& a, const RunTexts& b, const uint8_t* crowd, int64_t height,
                   double* overlaps);

}  // namespace visops
