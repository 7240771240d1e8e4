// The torch fronts of pasted masks: as numbers, as masks, and the gradient of the numbers.
#include "core/masks/paste.h"

#include "core/masks/components.h"
#include "core/masks/packed.h"
#include "torch/masks/front.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

DType computed_in(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Tensor converted(const Tensor& tensor, DType from, DType to) {
  const Tensor values = from == to ? tensor : torch::stable::to(tensor, scalar_type_of(to));
  return torch::stable::contiguous(values);
}

struct PasteMasksCall {
  const char* op;
  PasteMasksParams params = {};
  Tensor boxes;                   // contiguous, of params.dtype
  DType given = DType::kFloat32;  // of masks, or of the incoming gradient

  PasteMasksCall(const char* name, const char* values_name, const Tensor& values,
                 const Tensor& all_boxes, const std::string& convention, int64_t padding)
      : op(name), boxes(all_boxes) {
    given = dtype_of(op, values_name, values);
    require(is_floating(given), op, values_name, " has dtype ", dtype_name(given),
            ", must be a floating type");
    require(values.dim() == 3, op, values_name, " has shape ", shape_text(values),
            ", must be [N, H, W]");
    check_same_device(op, values_name, values, "boxes", boxes);
    const DType of_boxes = dtype_of(op, "boxes", boxes);
    require(of_boxes != DType::kBool, op,
            "boxes has dtype bool, must be a floating or integer type");
    params.count = values.size(0);
    check_shape(op, "boxes", boxes, {params.count, 4});
    params.dtype = computed_in(given);
    params.convention = parse_paste_convention(op, convention);
    params.padding = padding;
    boxes = converted(boxes, of_boxes, params.dtype);
    params.boxes = boxes.const_data_ptr();
  }

  void check() const {
    check_paste_masks(op, params);
    if (!boxes.is_cuda()) check_paste_boxes(op, params);
  }
  void set_image(int64_t height, int64_t width) {
    params.height = height;
    params.width = width;
  }
  void set_mask(int64_t height, int64_t width) {
    params.mask_height = height;
    params.mask_width = width;
  }
};

void set_size(PasteMasksCall* call, const Tensor& masks, const std::vector<int64_t>& size) {
  require(size.size() == 2, call->op, "size is ", shape_text(size), ", must have two numbers");
  call->set_image(size[0], size[1]);
  call->set_mask(masks.size(1), masks.size(2));
}

// The CPU's kernels write only what boxes reach, CUDA's everything.
Tensor make_output(const PasteMasksCall& call, const Tensor& like, int64_t last, DType dtype) {
  const std::vector<int64_t> sizes = {call.params.count, call.params.height, last};
  if (runs_cuda_kernels(like)) return make_result(call.op, like, sizes, dtype);
  return zeroed_on_host(call.op, "result", sizes, dtype);
}

void paste(PasteMasksCall& call, const Tensor& masks, const Tensor& output) {
  if (output.numel() == 0) return;
  PasteMasksParams& p = call.params;
  const Tensor values = converted(masks, call.given, p.dtype);
  p.masks = values.const_data_ptr();
  p.output = output.mutable_data_ptr();
  run(paste_masks_stub, call.op, p, masks);
}

Tensor paste_masks(const Tensor& masks, const Tensor& boxes, const std::vector<int64_t>& size,
                   const std::string& convention, int64_t padding) {
  PasteMasksCall call("paste_masks", "masks", masks, boxes, convention, padding);
  PasteMasksParams& p = call.params;
  set_size(&call, masks, size);
  call.check();
  p.form = PastedForm::kFloating;
  p.output_dtype = call.given;
  const Tensor output = make_output(call, masks, p.width, call.given);
  paste(call, masks, output);
  return output;
}

Tensor paste_binary_masks(const Tensor& masks, const Tensor& boxes,
                          const std::vector<int64_t>& size, double threshold,
                          const std::string& out, const std::string& convention, int64_t padding) {
  PasteMasksCall call("paste_binary_masks", "masks", masks, boxes, convention, padding);
  PasteMasksParams& p = call.params;
  set_size(&call, masks, size);
  p.form = parse_pasted_form(call.op, out);
  p.threshold = threshold;
  call.check();
  check_mask_size(call.op, "results", p.height, p.width);
  const bool is_bits = p.form == PastedForm::kBits;
  const DType dtype = is_bits ? DType::kInt64 : out == "bool" ? DType::kBool : DType::kUInt8;
  const int64_t last = is_bits ? words_of(p.width) : p.width;
  const Tensor output = make_output(call, masks, last, dtype);
  paste(call, masks, output);
  return output;
}

Tensor paste_masks_backward(const Tensor& grad, const Tensor& boxes,
                            const std::vector<int64_t>& mask_size, const std::string& convention,
                            int64_t padding) {
  PasteMasksCall call("paste_masks_backward", "grad", grad, boxes, convention, padding);
  PasteMasksParams& p = call.params;
  require(mask_size.size() == 2 && mask_size[0] >= 0 && mask_size[1] >= 0, call.op, "mask_size is ",
          shape_text(mask_size), ", must have two numbers >= 0");
  call.set_image(grad.size(1), grad.size(2));
  call.set_mask(mask_size[0], mask_size[1]);
  call.check();
  const Tensor sums = make_result(call.op, grad, {p.count, p.mask_height, p.mask_width}, p.dtype);
  if (sums.numel() > 0) {
    const Tensor incoming = torch::stable::contiguous(grad);
    p.grad = incoming.const_data_ptr();
    p.output_dtype = call.given;
    p.grad_masks = sums.mutable_data_ptr();
    run(paste_masks_backward_stub, call.op, p, grad);
  }
  return call.given == p.dtype ? sums : torch::stable::to(sums, scalar_type_of(call.given));
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("paste_masks", VISOPS_BOX(&visops::paste_masks));
  m.impl("paste_binary_masks", VISOPS_BOX(&visops::paste_binary_masks));
  m.impl("paste_masks_backward", VISOPS_BOX(&visops::paste_masks_backward));
}
