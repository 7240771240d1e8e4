#include "core/masks/paste.h"

#include "core/check.h"

namespace visops {

KernelStub<PasteMasksParams> paste_masks_stub{"paste_masks"};
KernelStub<PasteMasksParams> paste_masks_backward_stub{"paste_masks_backward"};

namespace {

constexpr int64_t kMostExtent = int64_t{1} << 30;  // float32 and 32-bit positions reach that far

template <class Acc>
void check_boxes(const char* op, const PasteMasksParams& p) {
  for (int64_t k = 0; k < p.count; ++k) {
    const Acc* b = static_cast<const Acc*>(p.boxes) + k * 4;
    bool is_box = b[2] >= b[0] && b[3] >= b[1];
    for (int i = 0; i < 4; ++i) is_box = is_box && is_finite(static_cast<double>(b[i]));
    require(is_box, op, "boxes[", k, "] is [", b[0], ", ", b[1], ", ", b[2], ", ", b[3],
            "], must be finite, with x2 >= x1 and y2 >= y1");
  }
}

}  // namespace

PasteConvention parse_paste_convention(const char* op, const std::string& name) {
  if (name == "detectron2") return PasteConvention::kDetectron2;
  if (name == "torchvision") return PasteConvention::kTorchvision;
  fail(op, "convention is '", name, "', must be 'detectron2' or 'torchvision'");
}

PastedForm parse_pasted_form(const char* op, const std::string& name) {
  if (name == "bool" || name == "uint8") return PastedForm::kBytes;
  if (name == "packed") return PastedForm::kBits;
  fail(op, "out is '", name, "', must be 'bool', 'uint8' or 'packed'");
}

void check_paste_masks(const char* op, const PasteMasksParams& p) {
  for (const int64_t size : {p.height, p.width}) {
    require(size >= 0 && size < kMostExtent, op, "size is (", p.height, ", ", p.width,
            "), must have height and width >= 0 and below 2^30");
  }
  require(p.mask_height < kMostExtent && p.mask_width < kMostExtent, op, "masks are ",
          p.mask_height, " x ", p.mask_width, ", must have height and width below 2^30");
  require(p.padding >= 0 && p.padding < kMostExtent, op, "padding is ", p.padding,
          ", must be >= 0 and below 2^30");
  require(p.convention == PasteConvention::kTorchvision || p.padding == 0, op, "padding is ",
          p.padding, ", must be 0 for convention 'detectron2'");
  require(p.threshold == p.threshold, op, "threshold is nan, must be a number");
}

void check_paste_boxes(const char* op, const PasteMasksParams& p) {
  p.dtype == DType::kFloat64 ? check_boxes<double>(op, p) : check_boxes<float>(op, p);
}

}  // namespace visops
