#include "core/masks/distance.h"

#include <limits>
#include <string>

#include "core/check.h"

namespace visops {

KernelStub<DistanceParams> distance_stub{"distance_transform"};

Metric parse_metric(const char* op, const std::string& name) {
  if (name == "euclidean") return Metric::kEuclidean;
  if (name == "taxicab") return Metric::kTaxicab;
  if (name == "chessboard") return Metric::kChessboard;
  fail(op, "metric is '", name, "', must be 'euclidean', 'taxicab' or 'chessboard'");
}

void check_distance(const char* op, const DistanceParams& p, const std::vector<double>& spacing) {
  const int64_t pixels = saturating_product(p.depth, saturating_product(p.height, p.width));
  const std::string planes = p.dims == 3 ? std::to_string(p.depth) + " x " : "";
  require(pixels <= std::numeric_limits<int32_t>::max(), op, "masks are ", planes, p.height, " x ",
          p.width, ", must have fewer than 2^31 pixels each");
  for (const int64_t side : {p.depth, p.height, p.width}) {
    require(side <= kLongestSide, op, "masks have a side of ", side, ", must be at most ",
            kLongestSide);
  }
  if (spacing.empty()) return;
  require(static_cast<int64_t>(spacing.size()) == p.dims, op, "spacing has length ", spacing.size(),
          ", must be ", p.dims);
  require(p.metric == Metric::kEuclidean, op, "spacing is for metric 'euclidean'");
  for (const double length : spacing) {
    // Within these, squares of distances are normal float32 numbers.
    require(length >= 1e-6 && length <= 1e6, op, "spacing is ", length,
            ", must be from 1e-6 to 1e6");
  }
}

}  // namespace visops
