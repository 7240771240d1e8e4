#include "core/pixels/filters/filter.h"

#include "core/check.h"

namespace visops {

KernelStub<SeparableParams> separable_stub("filter_separable");

namespace {

constexpr int64_t kMostSide = int64_t{1} << 30;  // so that twice as many fit in 32 bits

}  // namespace

void check_separable(const char* op, const SeparableParams& p) {
  const bool is_known = p.dtype == DType::kUInt8 || p.dtype == DType::kFloat16 ||
                        p.dtype == DType::kBFloat16 || p.dtype == DType::kFloat32;
  require(is_known, op, "images have dtype ", dtype_name(p.dtype),
          ", must be uint8, float16, bfloat16 or float32");
  require(p.height < kMostSide && p.width < kMostSide, op, "images have ", p.height, " rows and ",
          p.width, " columns, must have less than 2^30");
  const std::pair<const char*, int64_t> sides[] = {{"rows", p.row_taps},
                                                   {"columns", p.column_taps}};
  for (const auto& [name, taps] : sides) {
    require(taps >= 1 && taps <= kMostFilterTaps, op, name, " have ", taps,
            " taps, must have 1 to ", kMostFilterTaps);
    require(!p.pairs || taps % 2 == 1, op, name, " have ", taps, " taps, must be odd for pairs");
  }
}

}  // namespace visops
