#include "core/deformable/attention.h"

#include "core/check.h"

namespace visops {

KernelStub<AttentionParams> attention_stub("multi_scale_deformable_attention");
KernelStub<AttentionParams> attention_backward_value_stub(
    "multi_scale_deformable_attention_backward_value");
KernelStub<AttentionParams> attention_backward_samples_stub(
    "multi_scale_deformable_attention_backward_samples");

AttentionMethod parse_attention_method(const char* op, const std::string& name) {
  if (name == "default") return AttentionMethod::kDefault;
  if (name == "discrete") return AttentionMethod::kDiscrete;
  fail(op, "method is '", name, "', must be 'default' or 'discrete'");
}

namespace {

void position_levels(const char* op, AttentionParams* p) {
  int64_t covered = 0;
  for (int64_t l = 0; l < p->levels; ++l) {
    AttentionLevel& level = p->level[l];
    require(level.height >= 0 && level.width >= 0, op, "spatial_shapes[", l, "] is (", level.height,
            ", ", level.width, "), must be >= 0");
    require(level.height <= kMostSide && level.width <= kMostSide, op, "spatial_shapes[", l,
            "] is (", level.height, ", ", level.width, "), must be at most ", kMostSide);
    level.start = covered;
    const int64_t area = level.height * level.width;  // at most 2^60
    require(area <= p->positions - covered, op, "spatial_shapes cover more positions than value's ",
            p->positions, ": levels 0 to ", l, " have ", covered, " + ", area);
    covered += area;
  }
  require(covered == p->positions, op, "spatial_shapes cover ", covered,
          " positions, value has shape [B, ", p->positions, ", h, d]");
}

}  // namespace

void complete_attention(const char* op, AttentionParams* p) {
  require(p->positions <= INT32_MAX, op, "value has ", p->positions, " positions, must be at most ",
          INT32_MAX);
  if (p->device_shapes == nullptr) position_levels(op, p);
  int64_t samples = 0;
  for (int64_t l = 0; l < p->levels; ++l) {
    AttentionLevel& level = p->level[l];
    require(level.points >= 0 && level.points <= p->samples - samples, op, "points[", l, "] is ",
            level.points, ", must be >= 0, and their sum the number of samples, ", p->samples);
    level.first_sample = samples;
    samples += level.points;
  }
  require(samples == p->samples, op, "points has the sum ", samples,
          ", sampling_locations has samples for ", p->samples);
}

}  // namespace visops
