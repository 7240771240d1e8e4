#include "core/warp/remap.h"

#include <cstdlib>

#include "core/check.h"
#include "core/warp/affine.h"

namespace visops {

KernelStub<RemapParams> remap_stub{"remap"};

MapGrid parse_grid(const char* op, std::string_view name) {
  if (name == "dense") return MapGrid::kDense;
  if (name == "bilinear") return MapGrid::kLinear;
  require(name == "spline", op, "grid is '", name, "', must be 'dense', 'bilinear' or 'spline'");
  return MapGrid::kSpline;
}

namespace {

// Elements from a plane's first to its last.
int64_t plane_span(const RemapParams& p) {
  if (p.height == 0 || p.width == 0) return 0;
  return saturating_product(p.height - 1, std::abs(p.image_stride.row)) +
         saturating_product(p.width - 1, std::abs(p.image_stride.column));
}

}  // namespace

void check_remap(const char* op, const RemapParams& p) {
  check_side(op, "size[0] (height)", p.output_height);
  check_side(op, "size[1] (width)", p.output_width);
  const bool empty_output = p.batch == 0 || p.output_height == 0 || p.output_width == 0;
  require((p.height > 0 && p.width > 0) || empty_output, op, "images of ", p.height, " x ", p.width,
          " pixels have nothing to read; they must have at least a row and a column");
  require(plane_span(p) < (int64_t{1} << 31), op, "a plane of ", p.height, " x ", p.width,
          " pixels spans 2^31 elements or more; it must span fewer");
  const bool sampled = p.dtype == DType::kUInt8 || is_floating(p.dtype);
  require(sampled || (p.mode == Interpolation::kNearest && !p.to_float), op,
          "interpolation of images of ", dtype_name(p.dtype),
          " must be 'nearest', with their own dtype; convert them to a floating type first");
  require(!(p.to_float && p.dtype == DType::kFloat64), op,
          "to_float would round images of float64; it must be False for them");
  if (p.grid == MapGrid::kDense) {
    require(p.rows == p.output_height && p.columns == p.output_width, op, "the map is of ", p.rows,
            " x ", p.columns, " pixels, size is ", p.output_height, " x ", p.output_width,
            "; they must agree for the grid 'dense'");
  } else {
    require((p.rows > 0 && p.columns > 0) || empty_output, op, "the map has ", p.rows, " x ",
            p.columns, " points, must have at least one");
  }
  require(p.fill_count == 1 || p.fill_count == p.channels, op, "fill has ", p.fill_count,
          " values, images have ", p.channels, " channels (1 value, or 1 per channel)");
}

}  // namespace visops
