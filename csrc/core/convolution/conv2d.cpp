#include "core/convolution/conv2d.h"

#include "core/check.h"

namespace visops {

KernelStub<Conv2dParams> conv2d_stub{"conv2d"};
KernelStub<Conv2dWeightParams> conv2d_backward_weight_stub{"conv2d_backward_weight"};

ConvSizes conv_sizes(const ConvArguments& a) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto require_range = [&](const char* name, int64_t value, int64_t least) {
    require(value >= least && value <= kMost, a.op, name, " is ", value, ", must be >= ", least,
            " and <= ", kMost);
  };
  require_range("stride", a.stride, 1);
  require_range("dilation", a.dilation, 1);
  require_range("padding", a.before, 0);
  require_range("padding", a.after, 0);
  require(a.input <= kMost, a.op, "input has ", a.axis, " ", a.input, ", must be <= ", kMost);
  require(a.kernel >= 1 && a.kernel <= kMost, a.op, "weight has kernel ", a.axis, " ", a.kernel,
          ", must be >= 1 and <= ", kMost);
  const int64_t padded = a.input + a.before + a.after;
  const int64_t reach = (a.kernel - 1) * a.dilation + 1;
  require(reach <= padded, a.op, "weight has kernel ", a.axis, " ", a.kernel,
          a.dilation > 1 ? " (" + std::to_string(reach) + " with dilation)" : std::string(),
          ", must be <= the padded input's ", a.axis, " ", padded);
  return {a.input, a.kernel, (padded - reach) / a.stride + 1, a.stride, a.dilation, a.before};
}

}  // namespace visops
