// The result of suppression at a fixed size: what fronts and kernels share.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"

namespace visops {

struct NmsPadParams {
  int64_t images, per_image;  // boxes of an image
  // Candidates, image by image, best first: image * per_image + box. An image has those from
  // begin[image] up to begin[image + 1]; a null `begin` stands for all boxes.
  const int64_t* candidates;
  bool within_images;    // CUDA only: they are numbered from 0 on in each image
  const uint8_t* kept;   // a flag for each candidate
  const int64_t* begin;  // [images + 1]

  int64_t most;      // boxes of an image in the result
  int64_t* indices;  // [images, most] result: kept boxes, then -1
  int64_t* count;    // [images] result: of kept boxes
};

VISOPS_FN int64_t first_candidate(const NmsPadParams& p, int64_t image) {
  return p.begin == nullptr ? image * p.per_image : p.begin[image];
}

inline KernelStub<NmsPadParams> nms_pad_stub{"nms_pad"};

}  // namespace visops
