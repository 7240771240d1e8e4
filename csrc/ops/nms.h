// A call of the suppression operators after its checks, and the two ways to do it.
#pragma once

#include <optional>

#include "core/nms.h"
#include "ops/tensor.h"

namespace visops {

struct NmsCall {
  const char* op;
  Tensor boxes;               // [N, 4] or [images, N, 4]
  Tensor scores;              // [N], [images, N] or [images, N, classes]
  std::optional<Tensor> ids;  // of the shape of scores: boxes with different ones never meet
  int64_t images, per_image, classes;
  bool in_batch;     // results name the image
  bool by_class;     // ... and the class
  NmsParams params;  // all but the candidates' order, `kept` and scratch

  int64_t columns() const { return by_class ? 3 : (in_batch ? 2 : 1); }
  int64_t candidates() const { return images * classes * per_image; }
};

struct PaddedResult {
  Tensor indices, count;
};

// Kept candidates, by image and falling score: [K], [K, 2] (image, box) or [K, 3] (image, class,
// box).
Tensor nms_on_host(const NmsCall& call);
PaddedResult nms_padded_on_host(const NmsCall& call);

// Without a look at device memory: torch's own sorts and selections around the kernels. Only a
// result's size is waited for, and not even that by the padded form.
Tensor nms_on_device(const NmsCall& call);
PaddedResult nms_padded_on_device(const NmsCall& call);

}  // namespace visops
