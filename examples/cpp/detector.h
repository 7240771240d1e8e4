// The compiled detector, and how programs print what it finds.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

struct Detections {
  at::Tensor boxes;   // float32 [K, 4] x1, y1, x2, y2 in pixels of the photo
  at::Tensor scores;  // float32 [K]
  at::Tensor labels;  // int64 [K] 0: bright, 1: dark
};

class Detector {
 public:
  explicit Detector(const std::string& package) : loader_(package) {}

  // The photo is uint8 [3, height, width], contiguous.
  Detections operator()(const at::Tensor& photo) {
    const std::vector<at::Tensor> found = loader_.run({photo});
    return {found.at(0), found.at(1), found.at(2)};
  }

 private:
  torch::inductor::AOTIModelPackageLoader loader_;
};

// Prints a line with the photo's path, then for each blob its label, score and corners. Nine digits
// tell every float32 from every other: equal lines mean equal bits.
inline void print(const std::string& path, const Detections& found) {
  const at::Tensor boxes = found.boxes.contiguous(), scores = found.scores.contiguous(),
                   labels = found.labels.contiguous();
  const auto* box = boxes.const_data_ptr<float>();
  std::fputs(path.c_str(), stdout);
  for (int64_t i = 0; i < boxes.size(0); ++i, box += 4) {
    std::printf(" %d %.9g", static_cast<int>(labels.const_data_ptr<int64_t>()[i]),
                scores.const_data_ptr<float>()[i]);
    std::printf(" %.9g %.9g %.9g %.9g", box[0], box[1], box[2], box[3]);
  }
  std::puts("");
  std::fflush(stdout);
}
