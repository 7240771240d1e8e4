// How the CPU cuts a convolution, or the gradient of its kernel, into tasks, and how a task lays
// out its scratch memory.
#pragma once

#include "core/convolution/convolve2d_gradient.h"

namespace visops {

// The most rows of the output that a task sums together, which share what is read, and the columns
// that a row of scratch has room for.
constexpr int64_t kConvolveRows = 6;
constexpr int64_t kConvolveColumns = 8192;
constexpr int64_t kTransposedColumns = 1024;
// Bytes that may be read beyond a row of scratch: its last vector is read whole.
constexpr int64_t kConvolveSlack = 256;
// Bytes of a complex weight: each part is repeated to fill 16.
constexpr int64_t kComplexWeight = 32;

// Scratch of a task, as bytes from its beginning. A term is what an element is summed in; a complex
// number is a pair.
struct ConvolveLayout {
  int64_t slots;       // rows of the input that are there at a time, at most
  int64_t slot_terms;  // of a slot
  int64_t weights, row_pointers, fill_row, sums, ring, bytes;
};

// NOTE [ Narrow outputs ]
// Vectors hold neighbours of a row, so an output of few columns would leave most of each vector
// empty. Such a problem is transposed: its columns become rows. The order of sums stays: the kernel
// is then read column by column, and results are stored where they belong.
struct ConvolvePlan {
  bool transposes;
  int64_t parts;  // tasks that share bands of up to kConvolveRows rows of the output, or, where the
                  // problem is transposed, pieces of kTransposedColumns columns
  ConvolveLayout layout;
  int64_t scratch_bytes;  // of all parts
};

struct ConvolveTapsPlan {
  int64_t parts;                  // tasks that share the chunks
  int64_t grad_bytes, row_bytes;  // a part's scratch begins with grad's rows and an input row
  int64_t part_bytes, scratch_bytes;
};

// Returns the problem with rows and columns exchanged. Its output stays where it is.
ConvolveParams transposed(const ConvolveParams& p);

// The plan of a problem, or of the transposed one where the plan says so.
ConvolvePlan plan_convolve2d(const ConvolveParams& p, int64_t threads);
ConvolveTapsPlan plan_convolve2d_taps(const ConvolveTapsParams& p, int64_t threads);

}  // namespace visops
