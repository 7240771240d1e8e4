#include "core/suppression/soft_nms.h"

#include <cmath>

#include "core/check.h"

namespace visops {

KernelStub<SoftNmsParams> soft_nms_stub{"soft_nms"};
KernelStub<SoftNmsParams> soft_nms_rotated_stub{"soft_nms_rotated"};

Decay parse_decay(const char* op, std::string_view name) {
  if (name == "linear") return Decay::kLinear;
  if (name == "gaussian") return Decay::kGaussian;
  if (name == "hard") return Decay::kHard;
  fail(op, "method is '", name, "', must be 'linear', 'gaussian' or 'hard'");
}

void check_soft_nms(const char* op, const SoftNmsParams& p) {
  require(p.sigma > 0.0 && std::isfinite(p.sigma), op, "sigma is ", p.sigma,
          ", must be > 0 and finite");
  require(p.min_score >= 0.0 && std::isfinite(p.min_score), op, "min_score is ", p.min_score,
          ", must be >= 0 and finite");
}

}  // namespace visops
