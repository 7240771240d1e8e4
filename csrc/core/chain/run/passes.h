// The passes of a chain on images of the CPU, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/chain/run/pass.h"

namespace visops {

// Bytes that are not initialised, and kept for the next image: new pages cost as much as decoding a
// small photo.
class Buffer {
 public:
  uint8_t* of_size(size_t size) {
    if (size > capacity_) {
      bytes_.reset(new uint8_t[size]);
      capacity_ = size;
    }
    return bytes_.get();
  }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t capacity_ = 0;
};

// Runs passes on an image [C, H, W], which stays as it is; `plans` holds one for each. `to` must be
// contiguous if the last pass is by values.
void run_passes(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans,
                const AugmentImage& image, DType dtype, const StridedData& to,
                const Threads& threads);

// The same for the images of a batch, or `frames` for each of its samples.
void run_each_image(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans,
                    const std::vector<AugmentImage>& images, DType dtype,
                    const std::vector<StridedData>& to, int64_t frames, const Threads& threads);

}  // namespace visops
