#include "core/warp/augment.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/check.h"
#include "core/warp/affine.h"
#include "core/warp/augment_segment.h"

namespace visops {

KernelStub<AugmentParams> augment_stub{"augment"};
KernelStub<AugmentBackwardParams> augment_backward_stub{"augment_backward"};

namespace {

template <class Name>
void check_side(const char* op, const Name& name, const char* side, int64_t value) {
  require(value >= 0 && value <= 2147483647, op, name, side, " is ", value,
          ", must be within [0, 2147483647]");
}

std::string element(const char* name, int64_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

// "image", or "images[3]" of a list.
struct ImageName {
  bool listed;
  int64_t index;
};

std::ostream& operator<<(std::ostream& out, const ImageName& name) {
  return name.listed ? out << "images[" << name.index << "]" : out << "image";
}

void check_image(const char* op, const AugmentParams& p, const AugmentImage& image,
                 ImageName name) {
  check_side(op, name, " height", image.height);
  check_side(op, name, " width", image.width);
  const int64_t bytes = saturating_product(
      saturating_product(saturating_product(image.height, image.width), p.channels), 8);
  require(bytes < std::numeric_limits<int64_t>::max(), op, name, " of ", p.channels, " x ",
          image.height, " x ", image.width, " elements passes 2^63 bytes");
  const bool empty = image.height == 0 || image.width == 0;
  const bool nothing_to_do = p.output_height == 0 || p.output_width == 0;
  require(!empty || nothing_to_do || p.padding == Padding::kConstant, op, name, " of ",
          image.height, " x ", image.width,
          " pixels has nothing to pad with; only padding_mode 'constant' is possible");
}

void check_values(const char* op, const char* name, const std::vector<double>& values,
                  int64_t channels, bool may_be_empty) {
  const int64_t count = static_cast<int64_t>(values.size());
  require(count == 1 || count == channels || (may_be_empty && count == 0), op, name, " has ", count,
          " values, image has ", channels, " channels (1 value, or 1 per channel)");
  require(count <= kMaxAugmentChannels, op, name, " has ", count, " values, at most ",
          kMaxAugmentChannels, " are supported; give one for all channels");
}

bool is_augmentable(DType dtype) { return dtype == DType::kUInt8 || is_floating(dtype); }

}  // namespace

double full_scale(DType dtype) { return dtype == DType::kUInt8 ? 255.0 : 1.0; }

void check_augment(const char* op, const AugmentParams& p, const AugmentValues& values) {
  constexpr const char* kTypes = ", must be uint8, float16, bfloat16, float32 or float64";
  require(is_augmentable(p.dtype), op, "image has dtype ", dtype_name(p.dtype), kTypes);
  require(is_augmentable(p.output_dtype), op, "out_dtype is ", dtype_name(p.output_dtype), kTypes);
  check_side(op, "size[0]", " (height)", p.output_height);
  check_side(op, "size[1]", " (width)", p.output_width);
  int64_t bytes = saturating_product(p.batch, p.channels);
  bytes = saturating_product(saturating_product(bytes, p.output_height), p.output_width);
  require(saturating_product(bytes, 8) < std::numeric_limits<int64_t>::max(), op, "output of ",
          p.batch, " x ", p.channels, " x ", p.output_height, " x ", p.output_width,
          " elements passes 2^63 bytes");
  if (p.list == nullptr) {
    if (p.batch > 0) check_image(op, p, p.first, {false, 0});
  } else {
    for (int64_t i = 0; i < p.batch; ++i) check_image(op, p, p.list[i], {true, i});
  }
  require(!p.antialias || p.mode != Interpolation::kNearest, op,
          "antialias is True, mode is 'nearest'; it needs 'bilinear', 'bicubic' or 'lanczos'");
  require(p.antialias || p.mode != Interpolation::kLanczos, op,
          "mode is 'lanczos', antialias is False; it needs antialias=True");
  require(p.color == nullptr || p.channels <= kMaxColorChannels, op, "image has ", p.channels,
          " channels, with color at most ", kMaxColorChannels, " are supported");
  check_values(op, "fill", values.fill, p.channels, false);
  check_values(op, "mean", values.mean, p.channels, true);
  check_values(op, "std", values.std, p.channels, true);
  check_values(op, "erase_value", values.erase_value, p.channels, false);
  for (size_t i = 0; i < values.mean.size(); ++i) {
    require(is_finite(values.mean[i]), op, "mean[", i, "] is ", values.mean[i], ", must be finite");
  }
  for (size_t i = 0; i < values.std.size(); ++i) {
    const double v = values.std[i];
    require(is_finite(v) && v != 0.0 && is_finite(1.0 / v), op, "std[", i, "] is ", v,
            ", must be finite and not 0");
  }
  check_fill(op, p.dtype, values.fill.data(), static_cast<int64_t>(values.fill.size()));
  if (p.erase != nullptr) {
    check_fill(op, p.output_dtype, values.erase_value.data(),
               static_cast<int64_t>(values.erase_value.size()), "erase_value");
  }
}

void set_values(AugmentParams& p, const AugmentValues& values) {
  const size_t most = std::max(
      {values.fill.size(), values.mean.size(), values.std.size(), values.erase_value.size()});
  p.value_count = std::max<int64_t>(1, static_cast<int64_t>(most));
  const double in = full_scale(p.dtype), out = full_scale(p.output_dtype);
  const bool direct = p.color == nullptr && !p.clamp;
  p.input_scale = direct ? 1.0 : 1.0 / in;
  p.integers = p.dtype == DType::kUInt8;
  const auto value = [](const std::vector<double>& list, int64_t i, double otherwise) {
    return list.empty() ? otherwise : list[list.size() == 1 ? 0 : static_cast<size_t>(i)];
  };
  for (int64_t i = 0; i < p.value_count; ++i) {
    const double mean = value(values.mean, i, 0.0), std = value(values.std, i, 1.0);
    p.fill[i] = value(values.fill, i, 0.0);
    p.scale[i] = (direct ? out / in : out) / std;
    p.offset[i] = mean == 0.0 ? 0.0 : -mean * out / std;
    p.erase_value[i] = value(values.erase_value, i, 0.0);
  }
}

namespace {

void check_matrix(const char* op, const AugmentParams& p, int64_t sample) {
  double m[9];
  load_matrix(p, sample, m);
  const MatrixFault fault = matrix_fault(m, p.inverse_map);
  if (fault == MatrixFault::kNone) return;
  std::string text = "[";
  for (int i = 0; i < p.matrix_rows; ++i) {
    std::ostringstream row;
    row << (i > 0 ? ", [" : "[") << m[3 * i] << ", " << m[3 * i + 1] << ", " << m[3 * i + 2] << "]";
    text += row.str();
  }
  text += "]";
  const std::string name = p.matrix.shared ? "matrix" : element("matrix", sample);
  require(fault != MatrixFault::kNotFinite, op, name, " is not finite: ", text);
  fail(op, name, " is singular: ", text, " maps the image onto a line and can't be inverted");
}

void check_window(const char* op, const AugmentParams& p, int64_t sample) {
  const double* w = p.window + 4 * sample;
  const bool ordered = w[0] <= w[2] && w[1] <= w[3];  // false for NaN
  require(ordered, op, "window[", sample, "] is [", w[0], ", ", w[1], ", ", w[2], ", ", w[3],
          "], must be x1, y1, x2, y2 with x1 <= x2 and y1 <= y2");
  if (p.padding == Padding::kConstant) return;
  const AugmentImage& image = p.list != nullptr ? p.list[sample] : p.first;
  const AxisWindow x = axis_window(w[0], w[2], image.width);
  const AxisWindow y = axis_window(w[1], w[3], image.height);
  require(x.last >= x.first && y.last >= y.first, op, "window[", sample, "] is [", w[0], ", ", w[1],
          ", ", w[2], ", ", w[3], "], has no pixel of the image of ", image.height, " x ",
          image.width, "; only padding_mode 'constant' is possible");
}

}  // namespace

void check_augment_data(const char* op, const AugmentParams& p) {
  const int64_t matrices = p.matrix.shared ? std::min<int64_t>(p.batch, 1) : p.batch;
  for (int64_t sample = 0; sample < matrices; ++sample) check_matrix(op, p, sample);
  if (p.window != nullptr) {
    for (int64_t sample = 0; sample < p.batch; ++sample) check_window(op, p, sample);
  }
  if (p.color != nullptr) {
    const int64_t samples = p.color_shared ? std::min<int64_t>(p.batch, 1) : p.batch;
    const int64_t size = p.color_steps * p.channels * (p.channels + 1);
    for (int64_t i = 0; i < samples * size; ++i) {
      require(is_finite(p.color[i]), op, "color[", i / size, "] has the value ", p.color[i],
              ", must be finite");
    }
  }
}

}  // namespace visops
