#include "torch/fill.h"

#include <cstring>

#include "core/check.h"

namespace visops {

void take_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
               unsigned char (&element)[kLargestElement]) {
  std::memset(element, 0, sizeof(element));
  if (!fill.has_value()) return;
  require(fill->numel() == 1, op, "fill has shape ", shape_text(*fill), ", must be one element");
  require(fill->is_cpu(), op, "fill is on ", device_text(*fill), ", must be on cpu");
  const ScalarType type = fill->scalar_type(), wanted = input.scalar_type();
  require(type == wanted, op, "fill has dtype ", dtype_text(type), ", input has ",
          dtype_text(wanted));
  std::memcpy(element, fill->const_data_ptr(), fill->element_size());
}

}  // namespace visops
