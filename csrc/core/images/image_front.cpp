#include "core/images/image_front.h"

#include <string>

#include "core/check.h"

namespace visops {
namespace {

// The range of `fill`. Integers beyond 2^53 have no exact double.
struct Range {
  double low, high;
};

Range fill_range(DType dtype) {
  switch (dtype) {
    case DType::kBool: return {0.0, 1.0};
    case DType::kUInt8: return {0.0, 255.0};
    case DType::kInt8: return {-128.0, 127.0};
    case DType::kInt16: return {-32768.0, 32767.0};
    case DType::kUInt16: return {0.0, 65535.0};
    case DType::kInt32: return {-2147483648.0, 2147483647.0};
    default: return {-9007199254740992.0, 9007199254740992.0};
  }
}

}  // namespace

Interpolation parse_interpolation(const char* op, std::string_view name) {
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bicubic") return Interpolation::kBicubic;
  fail(op, "mode is '", name, "', must be 'nearest', 'bilinear' or 'bicubic'");
}

Interpolation parse_sampling(const char* op, std::string_view name) {
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bicubic") return Interpolation::kBicubic;
  if (name == "lanczos") return Interpolation::kLanczos;
  fail(op, "mode is '", name, "', must be 'nearest', 'bilinear', 'bicubic' or 'lanczos'");
}

Padding parse_padding(const char* op, std::string_view name) {
  if (name == "constant") return Padding::kConstant;
  if (name == "replicate") return Padding::kReplicate;
  if (name == "reflect") return Padding::kReflect;
  if (name == "symmetric") return Padding::kSymmetric;
  if (name == "circular") return Padding::kCircular;
  fail(op, "padding_mode is '", name,
       "', must be 'constant', 'replicate', 'reflect', 'symmetric' or 'circular'");
}

void check_fill(const char* op, DType dtype, const double* fill, int64_t count, const char* name) {
  if (is_floating(dtype)) return;
  const Range range = fill_range(dtype);
  for (int64_t i = 0; i < count; ++i) {
    require(fill[i] >= range.low && fill[i] <= range.high, op, name, "[", i, "] is ", fill[i],
            ", must be within [", range.low, ", ", range.high, "] for an image of ",
            dtype_name(dtype));
  }
}

}  // namespace visops
