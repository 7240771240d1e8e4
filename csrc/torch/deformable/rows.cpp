// NOTE [ Products of rows ]
// The rows, or their gradient, are in memory a part at a time: whole images, or as many blocks of
// one's pixels as fit. Parts are of about the same size. Products go through the forms of torch's
// operators with `out`, which autocast leaves alone. The bias is a weight of the ones that end the
// rows, so that the product adds it.
#include "torch/deformable/rows.h"

#include <algorithm>

#include "core/numbers/arithmetic.h"
#include "torch/tensor.h"

namespace visops {
namespace {

using Sizes = std::vector<int64_t>;

// Matrix products want rows that begin on 16 bytes: 8 numbers, of any type.
constexpr int64_t kAlignedBytes = 16, kAlignment = 8;

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

// a @ b for each group and image, [G, N, m, k] and [G, k, n]: few products of many matrices.
void multiply_images(const Tensor& a, const Tensor& b, const Tensor& out) {
  const Sizes sizes = {out.size(0), out.size(1), b.size(1), b.size(2)};
  const Tensor for_images =
      call_for_tensor("aten::expand", "", torch::stable::unsqueeze(b, 1), sizes, false);
  const int64_t few = sizes[0] <= sizes[1] ? 0 : 1;
  for (int64_t i = 0; i < sizes[few]; ++i) {
    const auto one = [&](const Tensor& tensor) { return torch::stable::select(tensor, few, i); };
    multiply(one(a), one(for_images), one(out));
  }
}

// Pixels [pixel, pixel + pixels) of images [image, image + images).
struct Part {
  int64_t image, images, pixel, pixels;
  int64_t count() const { return images * pixels; }
};

// The size of parts, at most `most`, that are about equal.
int64_t equal_part(int64_t count, int64_t most) {
  return parts_of(count, parts_of(count, std::max<int64_t>(1, most)));
}

// Memory for a part of the rows, or of their gradient, on the device of `on`: up to `bytes` where a
// block of pixels does not need more. Output pixels have `depth` numbers for each group.
class PartMemory {
 public:
  PartMemory(const char* op, const DeformConvParams& p, int64_t bytes, int64_t depth, DType dtype,
             const Tensor& on)
      : batch_(p.batch), pixels_(p.pixels()), groups_(p.groups), depth_(depth) {
    const int64_t fitting = bytes / (groups_ * depth * element_size(dtype));
    const bool fits = fitting >= pixels_;
    part_images_ = fits ? equal_part(batch_, fitting / pixels_) : 1;
    const int64_t blocks = fits ? p.blocks() : equal_part(p.blocks(), fitting / kBlockPixels);
    part_pixels_ = std::min(blocks * kBlockPixels, pixels_);
    memory_ = empty_contiguous(op, "rows", on, {groups_ * part_images_ * part_pixels_ * depth},
                               scalar_type_of(dtype));
  }

  int64_t parts() const { return parts_of(batch_, part_images_) * parts_of(pixels_, part_pixels_); }

  // use(part, memory [groups, images, pixels, depth]) for all parts, in order.
  template <class Use>
  void for_parts(const Use& use) const {
    for (int64_t image = 0; image < batch_; image += part_images_) {
      for (int64_t pixel = 0; pixel < pixels_; pixel += part_pixels_) {
        const Part part = {image, std::min(part_images_, batch_ - image), pixel,
                           std::min(part_pixels_, pixels_ - pixel)};
        // A smaller part has its rows at the beginning, without gaps between groups.
        const Tensor used = part_of(memory_, 0, 0, groups_ * part.count() * depth_);
        use(part, torch::stable::view(used, {groups_, part.images, part.pixels, depth_}));
      }
    }
  }

 private:
  int64_t batch_, pixels_, groups_, depth_;
  int64_t part_images_, part_pixels_;  // at most
  Tensor memory_;
};

class Rows {
 public:
  Rows(const char* op, const DeformConvParams& p, const Tensor& input)
      : op_(op),
        input_(input),
        params_{p, 0, 0, depth_of(p), nullptr},
        memory_(op, p, kRowBytes, params_.depth, p.dtype, input) {}

  int64_t depth() const { return params_.depth; }
  int64_t parts() const { return memory_.parts(); }

  // use(part, rows [groups, images, pixels, depth]) for all parts, in order.
  template <class Use>
  void for_parts(const Use& use) {
    memory_.for_parts([&](const Part& part, const Tensor& rows) {
      params_.first = part.image * params_.conv.pixels() + part.pixel;
      params_.count = part.count();
      params_.rows = rows.mutable_data_ptr();
      run(deform_conv2d_rows_stub, op_, params_, input_);
      use(part, rows);
    });
  }

 private:
  static int64_t depth_of(const DeformConvParams& p) {
    const int64_t numbers = p.taps() * p.group_channels() + (p.bias != nullptr ? 1 : 0);
    return (numbers + kAlignment - 1) / kAlignment * kAlignment;
  }

  const char* op_;
  const Tensor& input_;
  DeformRowsParams params_;
  PartMemory memory_;
};

// [groups, outputs of a group, taps, channels of a group], as a view.
Tensor by_tap(const DeformConvParams& p, const Tensor& weight) {
  const Tensor flat =
      torch::stable::reshape(weight, {p.groups, p.group_outputs(), p.group_channels(), p.taps()});
  return permuted(flat, {0, 1, 3, 2});
}

// [groups, N, P, outputs of a group] of a tensor [N, O, H, W], as a view.
Tensor by_pixel(const DeformConvParams& p, const Tensor& tensor, const Part& part) {
  const Tensor images = part_of(tensor, 0, part.image, part.images);
  const Tensor last = permuted(images, {0, 2, 3, 1});
  const Tensor flat =
      torch::stable::view(last, {part.images, p.pixels(), p.groups, p.group_outputs()});
  return permuted(part_of(flat, 1, part.pixel, part.pixels), {2, 0, 1, 3});
}

// Whether matrices, the last two dimensions, have them.
bool has_aligned_rows(const Tensor& matrices, DType dtype) {
  const int64_t row = std::max(matrices.stride(2), matrices.stride(3));
  return row * element_size(dtype) % kAlignedBytes == 0;
}

// Contiguous, or with adjacent channels.
Tensor laid_out(const Tensor& tensor) {
  const bool is_dense =
      prefers_channels_last(tensor) && tensor.stride(2) == tensor.size(3) * tensor.stride(3);
  return is_dense ? tensor : torch::stable::contiguous(tensor);
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
    Tensor to = by_pixel(p, output, part);
    if (has_aligned_rows(to, p.dtype)) return multiply_images(of_part, columns, to);
    const Tensor products =
        empty_contiguous(op, "products", input, {p.groups, part.images, part.pixels, outputs},
                         scalar_type_of(p.dtype));
    multiply_images(of_part, columns, products);
    torch::stable::copy_(to, products);
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
    const Tensor own = permuted(by_pixel(p, grad, part), {0, 3, 1, 2});
    const Tensor flat = torch::stable::reshape(own, {p.groups, outputs, part.count()});
    multiply(flat, torch::stable::view(of_part, {p.groups, part.count(), rows.depth()}),
             torch::stable::select(sums, 0, number++));
  });
  const Sizes parts = {0};
  const Tensor sum = torch::stable::sum(sums, parts, false, scalar_type_of(sum_dtype(p.dtype)));
  const Tensor taps = torch::stable::view(
      torch::stable::contiguous(part_of(sum, 2, 0, p.taps() * p.group_channels())),
      {p.groups, outputs, p.taps(), p.group_channels()});
  const Tensor turned = torch::stable::contiguous(permuted(taps, {0, 1, 3, 2}));
  return torch::stable::to(torch::stable::view(turned, weight_size), scalar_type_of(p.dtype));
}

void for_row_gradients(const char* op, const DeformConvParams& p, const Tensor& grad,
                       const Tensor& weight,
                       const std::function<void(const DeformConvParams&)>& use) {
  const DType dtype = sum_dtype(p.dtype);
  const int64_t depth = p.taps() * p.group_channels();
  const auto in_sums = [&](const Tensor& tensor) {
    return torch::stable::to(tensor, scalar_type_of(dtype));
  };
  const Tensor by_tap_then_channel = torch::stable::contiguous(by_tap(p, in_sums(weight)));
  const Tensor weights =
      torch::stable::view(by_tap_then_channel, {p.groups, p.group_outputs(), depth});
  const Tensor laid = laid_out(in_sums(grad));
  const int64_t bytes = grad.is_cuda() ? kRowBytes : kEmulatedGradientBytes;
  const PartMemory memory(op, p, bytes, depth, dtype, grad);
  DeformConvParams of_part = p;
  memory.for_parts([&](const Part& part, const Tensor& gradients) {
    multiply_images(by_pixel(p, laid, part), weights, gradients);
    of_part.row_gradients = gradients.const_data_ptr();
    of_part.part_first = part.image * p.pixels() + part.pixel;
    of_part.part_pixels = part.count();
    use(of_part);
  });
}

}  // namespace visops
