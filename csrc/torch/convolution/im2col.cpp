// The torch front of im2col and col2im: tensors -> Im2colParams.
#include "core/convolution/im2col.h"

#include <algorithm>
#include <optional>

#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

using Sizes = std::vector<int64_t>;

// The number of dimensions of the kernel; throws if out of range.
int64_t dims_of(const char* op, const Sizes& kernel_size) {
  require(kernel_size.size() >= 1 && kernel_size.size() <= kWindowDims, op, "kernel_size is ",
          shape_text(kernel_size), ", must be 1 to ", kWindowDims, " integers");
  return static_cast<int64_t>(kernel_size.size());
}

bool are_positive(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
}

Sizes shape_of(const Tensor& tensor) {
  Sizes shape;
  for (int64_t d = 0; d < tensor.dim(); ++d) shape.push_back(tensor.size(d));
  return shape;
}

// Merges dimensions that are contiguous together. False if more than kLeadDims are left.
bool set_leads(const Tensor& image, int64_t leads, Im2colParams* p) {
  Sizes sizes, strides;
  p->lead = 1;
  for (int64_t d = 0; d < leads; ++d) {
    const int64_t size = image.size(d), stride = image.stride(d);
    p->lead *= size;
    if (size == 1) continue;
    if (!sizes.empty() && strides.back() == stride * size) {
      sizes.back() *= size;
      strides.back() = stride;
    } else {
      sizes.push_back(size);
      strides.push_back(stride);
    }
  }
  if (sizes.size() > kLeadDims) return false;
  const size_t missing = kLeadDims - sizes.size();
  for (size_t d = 0; d < kLeadDims; ++d) {
    p->lead_size[d] = d < missing ? 1 : sizes[d - missing];
    p->lead_stride[d] = d < missing ? 0 : strides[d - missing];
  }
  return true;
}

// Sets the image's sizes and strides; returns the image or a contiguous copy of it.
Tensor set_image(const Tensor& image, int64_t dims, Im2colParams* p) {
  const int64_t leads = image.dim() - dims;
  const bool is_row = image.size(-1) == 1 || image.stride(-1) == 1;
  if (!is_row || !set_leads(image, leads, p)) {
    const Tensor copy = torch::stable::contiguous(image);
    set_leads(copy, leads, p);
    return set_image(copy, dims, p);
  }
  for (int64_t d = 0; d < kWindowDims; ++d) {
    const int64_t at = image.dim() - kWindowDims + d;
    p->stride[d] = at >= leads ? image.stride(at) : 0;
  }
  return image;
}

Tensor im2col(const Tensor& input, const Sizes& kernel_size, const Sizes& stride,
              const Sizes& padding, const Sizes& dilation, const std::optional<Tensor>& fill,
              const std::string& layout) {
  constexpr const char* kOp = "im2col";
  Im2colParams p = {};
  p.is_patches = parse_column_layout(kOp, layout);
  const int64_t dims = dims_of(kOp, kernel_size);
  const int64_t leads = input.dim() - dims;
  const Sizes shape = shape_of(input);
  if (p.is_patches) {
    require(leads >= 0, kOp, "input has shape ", shape_text(shape), ", must have ", dims,
            " dimensions or more, as kernel_size has ", dims);
  } else {
    require(leads >= 0 && leads <= 2, kOp, "input has shape ", shape_text(shape), ", must have ",
            dims, " to ", dims + 2, " dimensions, as kernel_size has ", dims);
  }
  const Sizes sizes(shape.end() - dims, shape.end());
  require(are_positive(sizes), kOp, "input has shape ", shape_text(shape), ", its last ", dims,
          dims == 1 ? " dimension" : " dimensions", " must not be empty");
  set_windows(kOp, "input", sizes, kernel_size, stride, padding, dilation, &p);
  p.element_size = static_cast<int64_t>(input.element_size());
  take_fill(kOp, input, fill, p.fill);

  Sizes result_shape(shape.begin(), shape.end() - dims);
  if (p.is_patches) {
    for (int64_t d = kWindowDims - dims; d < kWindowDims; ++d) {
      result_shape.push_back(p.dim[d].positions);
    }
    result_shape.insert(result_shape.end(), kernel_size.begin(), kernel_size.end());
  } else {
    const int64_t channels = leads > 0 ? shape[leads - 1] : 1;
    if (leads > 0) result_shape.pop_back();
    result_shape.push_back(saturating_product(channels, p.kernel_elements));
    result_shape.push_back(p.positions);
  }
  const Tensor result = empty_contiguous(kOp, "result", input, result_shape, input.scalar_type());
  if (result.numel() == 0) return result;
  const Tensor image = set_image(input, dims, &p);
  set_im2col_tasks(&p);
  p.source = image.const_data_ptr();
  p.result = result.mutable_data_ptr();
  run(im2col_stub, kOp, p, input);
  return result;
}

// Throws unless these can be an image's columns; returns the image's leading dimensions.
Sizes leads_of_columns(const char* op, const Sizes& shape, const Sizes& kernel_size,
                       const Im2colParams& p) {
  const int64_t dims = static_cast<int64_t>(kernel_size.size());
  const int64_t given = static_cast<int64_t>(shape.size());
  if (p.is_patches) {
    Sizes last;
    for (int64_t d = kWindowDims - dims; d < kWindowDims; ++d) last.push_back(p.dim[d].positions);
    last.insert(last.end(), kernel_size.begin(), kernel_size.end());
    require(given >= 2 * dims && std::equal(last.begin(), last.end(), shape.end() - 2 * dims), op,
            "input has shape ", shape_text(shape), ", its last dimensions must be ",
            shape_text(last));
    return Sizes(shape.begin(), shape.end() - 2 * dims);
  }
  const bool fits = (given == 2 || given == 3) && shape[given - 1] == p.positions &&
                    shape[given - 2] % p.kernel_elements == 0;
  require(fits, op, "input has shape ", shape_text(shape), ", must be [N, C * ", p.kernel_elements,
          ", ", p.positions, "] or [C * ", p.kernel_elements, ", ", p.positions, "]");
  Sizes leads(shape.begin(), shape.end() - 2);
  leads.push_back(shape[given - 2] / p.kernel_elements);
  return leads;
}

Tensor col2im(const Tensor& input, const Sizes& output_size, const Sizes& kernel_size,
              const Sizes& stride, const Sizes& padding, const Sizes& dilation,
              const std::string& layout) {
  constexpr const char* kOp = "col2im";
  Im2colParams p = {};
  p.is_patches = parse_column_layout(kOp, layout);
  dims_of(kOp, kernel_size);
  require(output_size.size() == kernel_size.size(), kOp, "output_size is ", shape_text(output_size),
          ", must be ", kernel_size.size(), " integers");
  require(are_positive(output_size), kOp, "output_size is ", shape_text(output_size),
          ", must be > 0");
  set_windows(kOp, "output", output_size, kernel_size, stride, padding, dilation, &p);
  Sizes result_shape = leads_of_columns(kOp, shape_of(input), kernel_size, p);
  p.arithmetic = arithmetic_of(kOp, "input", input);
  p.element_size = element_size(p.arithmetic);

  p.lead = 1;
  for (const int64_t size : result_shape) p.lead = saturating_product(p.lead, size);
  result_shape.insert(result_shape.end(), output_size.begin(), output_size.end());
  const Tensor result = empty_contiguous(kOp, "result", input, result_shape, input.scalar_type());
  if (result.numel() == 0) return result;
  const Tensor columns = torch::stable::contiguous(input);
  p.source = columns.const_data_ptr();
  p.result = result.mutable_data_ptr();
  run(col2im_stub, kOp, p, input);
  return result;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("im2col", VISOPS_BOX(&visops::im2col));
  m.impl("col2im", VISOPS_BOX(&visops::col2im));
}
