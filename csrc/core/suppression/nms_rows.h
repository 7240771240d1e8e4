// The kept candidates as rows of a result, on CUDA: what fronts and kernels share.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"

namespace visops {

// Candidates are split into chunks. The kernel first counts the kept ones of each, and writes rows
// when it has `rows`.
struct NmsRowsParams {
  int64_t count, per_image, classes;
  const int64_t* candidates;  // [count] in the order of the result, numbered as in NmsParams
  bool within_images;         // ... from 0 on in each image, one image after another
  const uint8_t* kept;        // flags
  const int64_t* slot;        // whose flag is each candidate's; null: its own
  bool names_image, names_class;
  int64_t chunk;    // candidates of a chunk
  int64_t* counts;  // [chunks]
  int64_t* rows;    // [kept, image? class? box]
};

inline KernelStub<NmsRowsParams> nms_rows_stub{"nms_rows"};

}  // namespace visops
