#include "core/roi/crops.h"

#include "core/check.h"
#include "core/images/image_front.h"
#include "core/roi/paste.h"

namespace visops {

KernelStub<RoiCropParams> roi_crop_maps_stub{"roi_crop_maps"};
KernelStub<RoiCropParams> roi_crops_stub{"roi_crops"};
KernelStub<RoiCropParams> roi_crops_backward_images_stub{"roi_crops_backward_images"};
KernelStub<RoiCropParams> roi_crops_backward_boxes_stub{"roi_crops_backward_boxes"};
KernelStub<RoiPasteParams> roi_paste_maps_stub{"roi_paste_maps"};
KernelStub<RoiPasteParams> roi_paste_stub{"roi_paste"};
KernelStub<RoiPasteParams> roi_paste_backward_stub{"roi_paste_backward"};

namespace {

constexpr int64_t kMostExtent = int64_t{1} << 31;

void check_extent(const char* op, const char* name, int64_t height, int64_t width) {
  require(height < kMostExtent && width < kMostExtent, op, name, " has height ", height,
          " and width ", width, ", must be below 2^31");
}

void check_bytes(const char* op, const char* name, const std::vector<int64_t>& shape, DType dtype) {
  int64_t bytes = element_size(dtype);
  for (const int64_t size : shape) bytes = saturating_product(bytes, size);
  require(bytes < std::numeric_limits<int64_t>::max(), op, name, " of shape ", shape_text(shape),
          " passes 2^63 bytes");
}

bool can_blend(DType dtype) {
  return is_floating(dtype) || dtype == DType::kUInt8 || dtype == DType::kInt16 ||
         dtype == DType::kUInt16;
}

}  // namespace

void check_roi_crops(const char* op, const RoiCropParams& p) {
  require(p.patch_height > 0 && p.patch_width > 0, op, "size is [", p.patch_height, ", ",
          p.patch_width, "], must be positive");
  check_extent(op, "size", p.patch_height, p.patch_width);
  check_extent(op, "images", p.height, p.width);
  check_bytes(op, "images", {p.batch, p.channels, p.height, p.width}, p.dtype);
  check_bytes(op, "result", {p.boxes.count, p.channels, p.patch_height, p.patch_width}, p.dtype);
  require(p.boxes.dtype != DType::kBool, op,
          "boxes has dtype bool, must be a floating or integer type");
  require(can_blend(p.dtype) || p.mode == Interpolation::kNearest, op,
          "interpolation of images of ", dtype_name(p.dtype),
          " must be 'nearest'; convert the images to a floating type to interpolate them");
  const bool is_empty = p.height == 0 || p.width == 0;
  require(!is_empty || p.boxes.count == 0 || p.padding == Padding::kConstant, op, "images of ",
          p.height, " x ", p.width,
          " pixels have nothing to pad with; only padding_mode 'constant' is possible");
  require(p.fill_count == 1 || p.fill_count == p.channels, op, "fill has ", p.fill_count,
          " values, images have ", p.channels, " channels (1 value, or 1 per channel)");
  require(p.fill_count <= kMaxFill, op, "fill has ", p.fill_count, " values, at most ", kMaxFill,
          " different ones are supported");
}

void check_roi_paste(const char* op, const RoiPasteParams& p) {
  require(can_blend(p.dtype), op, "images has dtype ", dtype_name(p.dtype),
          ", must be a floating type, uint8, int16 or uint16");
  require(p.boxes.dtype != DType::kBool, op,
          "boxes has dtype bool, must be a floating or integer type");
  const bool is_empty = p.patch_height == 0 || p.patch_width == 0;
  require(!is_empty || p.boxes.count == 0, op, "patches has size [", p.patch_height, ", ",
          p.patch_width, "]; with boxes its height and width must be positive");
  check_extent(op, "patches", p.patch_height, p.patch_width);
  check_extent(op, "images", p.height, p.width);
  check_bytes(op, "images", {p.batch, p.channels, p.height, p.width}, p.dtype);
  require(p.blend != PasteBlend::kFeather || (p.feather > 0.0 && is_finite(p.feather)), op,
          "feather is ", p.feather, ", must be finite and > 0");
}

PasteBlend parse_paste_blend(const char* op, const std::string& name) {
  if (name == "replace") return PasteBlend::kReplace;
  if (name == "feather") return PasteBlend::kFeather;
  if (name == "alpha") return PasteBlend::kAlpha;
  fail(op, "blend is '", name, "', must be replace, feather or alpha");
}

void check_crop_boxes(const char* op, const CropBoxes& boxes, int64_t batch) {
  for (int64_t k = 0; k < boxes.count; ++k) {
    CropMap map = {};
    if (load_crop_box(boxes, batch, k, &map)) continue;
    const double image = load_coordinate<double>(boxes.data, boxes.dtype, k * boxes.box_stride);
    require(image == floor(image) && is_finite(image), op, "boxes[", k, "] has batch index ", image,
            ", must be an integer");
    require(image >= 0.0 && image < static_cast<double>(batch), op, "boxes[", k,
            "] has batch index ", image, ", images has batch size ", batch);
    const bool is_box =
        is_single(map.x1) && is_single(map.y1) && is_single(map.x2) && is_single(map.y2);
    fail(op, "boxes[", k, "] is [", image, ", ", map.x1, ", ", map.y1, ", ", map.x2, ", ", map.y2,
         "], must ", is_box ? "have x2 >= x1 and y2 >= y1" : "be finite, in float32 too");
  }
}

}  // namespace visops
