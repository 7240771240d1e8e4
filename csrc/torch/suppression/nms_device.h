// Suppression of device memory. Few candidates are put in order by a kernel, many by torch's own
// sorts and selections. It waits for sizes only, and nms_padded not even for those: NOTE [ Fronts
// on the device ] in torch/operators.h.
#pragma once

#include "torch/suppression/nms_call.h"

namespace visops {

Tensor nms_on_device(const NmsCall& call);
PaddedResult nms_padded_on_device(const NmsCall& call);

// What soft suppression shares.

// Candidates [K] as rows of the result.
Tensor rows_of_candidates(const NmsCall& call, const Tensor& candidates);

// The scores of all candidates, one row for each image or class of an image.
Tensor scores_by_group(const NmsCall& call);

// Candidates, group by group. Equal numbers in `segment` are a group.
struct Groups {
  Tensor order, segment;
  Tensor slot;  // of each in the list that the groups were made of
};

// Groups of equal ids within an image; each keeps the order of `candidates`.
Groups groups_by_ids(const NmsCall& call, const Tensor& candidates);

}  // namespace visops
