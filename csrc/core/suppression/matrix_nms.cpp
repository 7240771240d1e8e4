#include "core/suppression/matrix_nms.h"

#include "core/check.h"

namespace visops {

KernelStub<MatrixNmsParams> matrix_nms_stub{"matrix_nms"};
KernelStub<MaskBitsParams> mask_bits_stub{"mask_bits"};

DecayFunction parse_decay_function(const char* op, const std::string& name) {
  if (name == "gaussian") return DecayFunction::kGaussian;
  if (name == "linear") return DecayFunction::kLinear;
  fail(op, "method is '", name, "', must be 'gaussian' or 'linear'");
}

void check_matrix_nms(const char* op, const MatrixNmsParams& p, double min_score) {
  require(p.dtype != DType::kBool, op,
          "objects has dtype bool, boxes must be of a floating or integer type");
  require(is_floating(p.score_dtype), op, "scores has dtype ", dtype_name(p.score_dtype),
          ", must be a floating type");
  require(p.sigma > 0.0 && std::isfinite(p.sigma), op, "sigma is ", p.sigma,
          ", must be > 0 and finite");
  require(min_score >= 0.0 && std::isfinite(min_score), op, "min_score is ", min_score,
          ", must be >= 0 and finite");
}

}  // namespace visops
