#include "core/deformable/conv2d.h"

#include "core/check.h"

namespace visops {

KernelStub<DeformConvParams> deform_conv2d_stub("deform_conv2d");
KernelStub<DeformRowsParams> deform_conv2d_rows_stub("deform_conv2d_rows");

namespace {

// There is no CPU kernel: the CPU multiplies rows while its caches hold them. But libvisops takes
// CUDA kernels only for stubs that it has heard of.
const bool listed = deform_conv2d_rows_stub.set(Slot::kDefault, nullptr);

}  // namespace
KernelStub<DeformConvParams> deform_conv2d_backward_input_stub("deform_conv2d_backward_input");
KernelStub<DeformConvParams> deform_conv2d_backward_offset_stub("deform_conv2d_backward_offset");
KernelStub<DeformConvParams> deform_conv2d_backward_weight_stub("deform_conv2d_backward_weight");

DeformAxis deform_axis(const char* op, const char* name, DeformAxis axis) {
  const auto require_range = [&](const char* argument, int64_t value, int64_t least) {
    require(value >= least && value <= kMostSide, op, argument, " is ", value,
            ", must be >= ", least, " and <= ", kMostSide);
  };
  require_range("stride", axis.stride, 1);
  require_range("padding", axis.padding, 0);
  require_range("dilation", axis.dilation, 1);
  require(axis.input >= 0 && axis.input <= kMostSide, op, "input has ", name, " ", axis.input,
          ", must be >= 0 and <= ", kMostSide);
  require(axis.kernel >= 1 && axis.kernel <= kMostSide, op, "weight has kernel ", name, " ",
          axis.kernel, ", must be >= 1 and <= ", kMostSide);
  const int64_t padded = axis.input + 2 * axis.padding;
  const int64_t reach = (axis.kernel - 1) * axis.dilation + 1;
  require(reach <= padded, op, "weight has kernel ", name, " ", axis.kernel,
          axis.dilation > 1 ? " (" + std::to_string(reach) + " with dilation)" : std::string(),
          ", must be <= the padded input's ", name, " ", padded);
  axis.output = (padded - reach) / axis.stride + 1;
  return axis;
}

}  // namespace visops
