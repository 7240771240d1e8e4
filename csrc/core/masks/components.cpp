#include "core/masks/components.h"

#include <limits>

#include "core/check.h"

namespace visops {

KernelStub<ComponentsParams> components_stub{"connected_components"};
KernelStub<ComponentStatsParams> component_stats_stub{"component_stats"};
KernelStub<SmallRegionsParams> small_regions_stub{"remove_small_regions"};

void check_mask_size(const char* op, const char* name, int64_t height, int64_t width) {
  require(saturating_product(height, width) <= std::numeric_limits<int32_t>::max(), op, name,
          " are ", height, " x ", width, ", must have fewer than 2^31 pixels each");
}

bool parse_connectivity(const char* op, int64_t connectivity) {
  require(connectivity == 4 || connectivity == 8, op, "connectivity is ", connectivity,
          ", must be 4 or 8");
  return connectivity == 8;
}

bool parse_region_kind(const char* op, const std::string& name) {
  if (name == "holes") return true;
  if (name == "islands") return false;
  fail(op, "mode is '", name, "', must be 'holes' or 'islands'");
}

}  // namespace visops
