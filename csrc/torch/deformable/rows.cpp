// NOTE [ Products of rows ]
// The rows are written a part at a time: whole images, or as many pixels of one as fit. Products go
// through the forms of torch's operators with `out`, which autocast leaves alone. The bias is a
// weight of the ones that end the rows, so that the product adds it.
#include "torch/deformable/rows.h"

#include <algorithm>

#include "torch/contiguous.h"
#include "torch/dispatcher.h"

namespace visops {
namespace {

using Sizes = std::vector<int64_t>;

constexpr int64_t kAlignment = 8;  // numbers: matrix products want rows that begin on 16 bytes

Tensor permuted(const Tensor& tensor, const Sizes& order) {
  return torch::stable::permute(tensor, order);
}

Tensor part_of(Tensor tensor, int64_t dim, int64_t first, int64_t count) {
  return torch::stable::narrow(tensor, dim, first, count);
}

// a @ b, [G, m, k] and [G, k, n].
void multiply(const Tensor& a, const Tensor& b, const Tensor& out) {
  call_operator("aten::bmm", "out", a, b, out);
}

// Pixels [pixel, pixel + pixels) of images [image, image + images).
struct Part {
  int64_t image, images, pixel, pixels;
  int64_t count() const { return images * pixels; }
};

class Rows {
 public:
  Rows(const char* op, const DeformConvParams& p, const Tensor& input)
      : op_(op), input_(input), params_{p, 0, 0, depth_of(p), nullptr} {
    const int64_t each = p.groups * params_.depth * element_size(p.dtype);
    const int64_t fitting = std::max<int64_t>(1, kRowBytes / each);
    images_ = std::clamp<int64_t>(fitting / p.pixels(), 1, p.batch);
    pixels_ = std::min(fitting, p.pixels());
    rows_ = empty_contiguous(op, "rows", input, {p.groups, images_ * pixels_, params_.depth},
                             scalar_type_of(p.dtype));
  }

  int64_t depth() const { return params_.depth; }

  int64_t parts() const {
    const DeformConvParams& p = params_.conv;
    const auto parts_of = [](int64_t count, int64_t size) { return (count + size - 1) / size; };
    return parts_of(p.batch, images_) * parts_of(p.pixels(), pixels_);
  }

  // use(part, rows [groups, part.count(), depth]) for all parts, in order.
  template <class Use>
  void for_parts(const Use& use) {
    const DeformConvParams& p = params_.conv;
    for (int64_t image = 0; image < p.batch; image += images_) {
      for (int64_t pixel = 0; pixel < p.pixels(); pixel += pixels_) {
        const Part part = {image, std::min(images_, p.batch - image), pixel,
                           std::min(pixels_, p.pixels() - pixel)};
        // A smaller part has its rows at the beginning, without gaps between groups.
        const Tensor flat =
            part_of(torch::stable::flatten(rows_), 0, 0, p.groups * part.count() * params_.depth);
        const Tensor rows = torch::stable::view(flat, {p.groups, part.count(), params_.depth});
        params_.first = image * p.pixels() + pixel;
        params_.count = part.count();
        params_.rows = rows.mutable_data_ptr();
        run(deform_conv2d_rows_stub, op_, params_, input_);
        use(part, rows);
      }
    }
  }

 private:
  static int64_t depth_of(const DeformConvParams& p) {
    const int64_t numbers = p.taps() * p.group_channels() + (p.bias != nullptr ? 1 : 0);
    return (numbers + kAlignment - 1) / kAlignment * kAlignment;
  }

  const char* op_;
  const Tensor& input_;
  DeformRowsParams params_;
  int64_t images_, pixels_;  // of a part, at most
  Tensor rows_;
};

// [groups, outputs of a group, taps, channels of a group], as a view.
Tensor by_tap(const DeformConvParams& p, const Tensor& weight) {
  const Tensor flat =
      torch::stable::reshape(weight, {p.groups, p.group_outputs(), p.group_channels(), p.taps()});
  return permuted(flat, {0, 1, 3, 2});
}

// [N, P, groups, outputs of a group] of a tensor [N, O, H, W], as a view where its layout allows.
Tensor by_pixel(const DeformConvParams& p, const Tensor& tensor, const Part& part) {
  const Tensor images = part_of(tensor, 0, part.image, part.images);
  const Tensor last = permuted(images, {0, 2, 3, 1});
  const Tensor flat =
      torch::stable::view(last, {part.images, p.pixels(), p.groups, p.group_outputs()});
  return part_of(flat, 1, part.pixel, part.pixels);
}

}  // namespace

void multiply_rows(const char* op, const DeformConvParams& p, const Tensor& input,
                   const Tensor& weight, const Tensor* bias, const Tensor& output) {
  Rows rows(op, p, input);
  const int64_t samples = p.taps() * p.group_channels(), outputs = p.group_outputs();
  const Tensor matrix =
      torch::stable::new_zeros(weight, {p.groups, outputs, rows.depth()}, std::nullopt);
  Tensor weights = torch::stable::view(part_of(matrix, 2, 0, samples),
                                       {p.groups, outputs, p.taps(), p.group_channels()});
  torch::stable::copy_(weights, by_tap(p, weight));
  if (bias != nullptr) {
    Tensor last = part_of(matrix, 2, samples, 1);
    torch::stable::copy_(last, torch::stable::reshape(*bias, {p.groups, outputs, 1}));
  }
  const Tensor columns = permuted(matrix, {0, 2, 1});
  rows.for_parts([&](const Part& part, const Tensor& of_part) {
    const Tensor products = empty_contiguous(
        op, "products", input, {p.groups, part.count(), outputs}, scalar_type_of(p.dtype));
    multiply(of_part, columns, products);
    Tensor to = by_pixel(p, output, part);
    const Tensor from =
        torch::stable::view(products, {p.groups, part.images, part.pixels, outputs});
    torch::stable::copy_(to, permuted(from, {1, 2, 0, 3}));
  });
}

Tensor multiply_gradient(const char* op, const DeformConvParams& p, const Tensor& input,
                         const Tensor& grad, const Sizes& weight_size) {
  if (p.batch * p.pixels() == 0) return torch::stable::new_zeros(input, weight_size, std::nullopt);
  Rows rows(op, p, input);
  const int64_t outputs = p.group_outputs();
  const Tensor sums = empty_contiguous(
      op, "sums", input, {rows.parts(), p.groups, outputs, rows.depth()}, scalar_type_of(p.dtype));
  int64_t number = 0;
  rows.for_parts([&](const Part& part, const Tensor& of_part) {
    // [groups, outputs, pixels]
    const Tensor own = permuted(by_pixel(p, grad, part), {2, 3, 0, 1});
    const Tensor flat = torch::stable::reshape(own, {p.groups, outputs, part.count()});
    multiply(flat, of_part, torch::stable::select(sums, 0, number++));
  });
  const Sizes parts = {0};
  const ScalarType wide = p.dtype == DType::kFloat64 ? ScalarType::Double : ScalarType::Float;
  const Tensor sum = torch::stable::sum(sums, parts, false, wide);
  const Tensor taps = torch::stable::view(
      torch::stable::contiguous(part_of(sum, 2, 0, p.taps() * p.group_channels())),
      {p.groups, outputs, p.taps(), p.group_channels()});
  const Tensor turned = torch::stable::contiguous(permuted(taps, {0, 1, 3, 2}));
  return torch::stable::to(torch::stable::view(turned, weight_size), scalar_type_of(p.dtype));
}

}  // namespace visops
