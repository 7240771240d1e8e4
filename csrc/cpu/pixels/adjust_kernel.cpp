// NOTE: A task is an image. The operations have kernels of their own:
// csrc/core/pixels/operations.h.
#include <cstring>

#include "core/pixels/adjust.h"

namespace visops {
namespace {

void adjust_cpu(const AdjustParams& p, Workspace& workspace) {
  const int64_t bytes = p.size() * element_size(p.dtype);
  auto* const scratch = allocate<char>(workspace, p.batch * bytes);
  parallel_for(workspace, p.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      char* const image = static_cast<char*>(p.output) + i * bytes;
      memcpy(image, static_cast<const char*>(p.images) + i * bytes, static_cast<size_t>(bytes));
      run_pixel_operation(p.operations[i], {image, p.dtype, p.channels, p.height, p.width},
                          scratch + i * bytes);
    }
  });
}

const bool registered = adjust_stub.set(kIsaSlot, adjust_cpu);

}  // namespace
}  // namespace visops
