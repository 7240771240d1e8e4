// NOTE [ Padding on the CPU ]
// Copies an image's kept candidates to its row until the row is full, and fills what is left of it.
// Assumes what the front establishes: candidates are boxes of their image.
#include "core/suppression/nms.h"
#include "cpu/items.h"

namespace visops {
namespace {

void nms_pad_range(const NmsPadParams& p, int64_t begin, int64_t end) {
  for (int64_t image = begin; image < end; ++image) {
    int64_t* row = p.indices + image * p.most;
    int64_t kept = 0;
    const int64_t past = first_candidate(p, image + 1);
    for (int64_t i = first_candidate(p, image); i < past && kept < p.most; ++i) {
      if (p.kept[i] != 0) row[kept++] = p.candidates[i] - image * p.per_image;
    }
    p.count[image] = kept;
    for (int64_t i = kept; i < p.most; ++i) row[i] = -1;
  }
}

void nms_pad_kernel(const NmsPadParams& p, Workspace& workspace) {
  for_items(workspace, p, p.images, p.per_image + p.most, nms_pad_range);
}

const bool registered = nms_pad_stub.set(kIsaSlot, nms_pad_kernel);

}  // namespace
}  // namespace visops
