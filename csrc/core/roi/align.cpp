#include "core/roi/align.h"

#include "core/check.h"

namespace visops {

KernelStub<RoiAlignParams> roi_align_stub{"roi_align"};
KernelStub<RoiAlignParams> roi_align_backward_input_stub{"roi_align_backward_input"};
KernelStub<RoiAlignParams> roi_align_backward_boxes_stub{"roi_align_backward_boxes"};
KernelStub<RoiAlignParams> roi_align_max_stub{"roi_align_max"};
KernelStub<RoiAlignParams> roi_align_max_at_stub{"roi_align_max_at"};
KernelStub<RoiAlignParams> roi_align_max_backward_input_stub{"roi_align_max_backward_input"};
KernelStub<RoiAlignParams> roi_align_max_backward_boxes_stub{"roi_align_max_backward_boxes"};

namespace {

constexpr int64_t kMostSamples = 4096;             // along a side of a bin; far beyond any use
constexpr int64_t kMostExtent = int64_t{1} << 31;  // tables hold 32-bit pixel numbers

bool takes(DType dtype) { return dtype == DType::kUInt8 || is_floating(dtype); }

}  // namespace

void check_roi_align(const char* op, const char* name, const RoiAlignParams& p) {
  require(takes(p.dtype), op, name, " has dtype ", dtype_name(p.dtype),
          ", must be float16, bfloat16, float32, float64 or uint8");
  require(p.boxes.dtype != DType::kBool, op,
          "boxes has dtype bool, must be a floating or integer type");
  require(p.bins_y > 0 && p.bins_x > 0, op, "output_size is [", p.bins_y, ", ", p.bins_x,
          "], must be positive");
  require(p.bins_y < kMostExtent && p.bins_x < kMostExtent, op, "output_size is [", p.bins_y, ", ",
          p.bins_x, "], must be below 2^31");
  require(p.sampling_ratio <= kMostSamples, op, "sampling_ratio is ", p.sampling_ratio,
          ", must be at most ", kMostSamples);
  for (int64_t level = 0; level < p.levels; ++level) {
    const RoiMap& map = p.maps[level];
    require(map.scale > 0.0 && map.scale <= std::numeric_limits<double>::max(), op,
            p.levels == 1 ? "spatial_scale is " : "a scale is ", map.scale,
            ", must be finite and > 0");
    require(p.boxes.count == 0 || (map.height > 0 && map.width > 0), op, name, " has size [",
            p.images, ", ", p.channels, ", ", map.height, ", ", map.width,
            "]; with boxes its height and width must be positive");
    require(map.height < kMostExtent && map.width < kMostExtent, op, name, " has size [", p.images,
            ", ", p.channels, ", ", map.height, ", ", map.width,
            "], height and width must be below 2^31");
  }
}

std::string roi_text(const RoiBoxes& boxes, int64_t k, int columns) {
  std::ostringstream text;
  text << "boxes[" << k << "] is [";
  for (int i = 0; i < columns; ++i) {
    const int64_t at = k * boxes.box_stride + i * boxes.coordinate_stride;
    text << (i > 0 ? ", " : "") << load_coordinate<double>(boxes.data, boxes.dtype, at);
  }
  text << ']';
  return text.str();
}

void check_roi_image(const char* op, const char* name, const RoiBoxes& boxes, int64_t k,
                     int64_t images) {
  const double image = load_coordinate<double>(boxes.data, boxes.dtype, k * boxes.box_stride);
  require(image == floor(image) && image - image == 0.0, op, "boxes[", k, "] has batch index ",
          image, ", must be an integer");
  require(image >= 0.0 && image < static_cast<double>(images), op, "boxes[", k,
          "] has batch index ", image, ", ", name, " has batch size ", images);
}

void check_rois(const char* op, const char* name, const RoiAlignParams& p) {
  for (int64_t k = 0; k < p.boxes.count; ++k) {
    const bool valid =
        p.dtype == DType::kFloat64 ? load_roi<double>(p, k).valid : load_roi<float>(p, k).valid;
    if (valid) continue;
    check_roi_image(op, name, p.boxes, k, p.images);
    double corner[4];
    for (int i = 0; i < 4; ++i) {
      corner[i] =
          load_coordinate<double>(p.boxes.data, p.boxes.dtype,
                                  k * p.boxes.box_stride + (i + 1) * p.boxes.coordinate_stride);
    }
    const bool is_negative = corner[2] < corner[0] || corner[3] < corner[1];
    const bool is_single = p.levels == 1;
    require(!is_negative || !(p.aligned || !is_single), op, roi_text(p.boxes, k, 5),
            ", must have x2 >= x1 and y2 >= y1", is_single ? " where aligned is True" : "");
    fail(op, roi_text(p.boxes, k, 5), ", must be finite, and its size too in ",
         p.dtype == DType::kFloat64 ? "float64" : "float32");
  }
}

}  // namespace visops
