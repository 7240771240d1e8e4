#include "core/deformable/match.h"

#include "core/check.h"

namespace visops {

KernelStub<MatchParams> match_cost_stub("match_cost");

MatchKind parse_match_kind(const char* op, const std::string& name) {
  if (name == "focal") return MatchKind::kFocal;
  if (name == "softmax") return MatchKind::kSoftmax;
  fail(op, "kind is '", name, "', must be 'focal' or 'softmax'");
}

}  // namespace visops
