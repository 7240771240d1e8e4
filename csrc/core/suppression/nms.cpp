#include "core/suppression/nms.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace visops {

KernelStub<NmsParams> nms_stub{"nms"};
KernelStub<NmsParams> nms_rotated_stub{"nms_rotated"};

void check_nms(const char* op, const NmsParams& p) {
  require(p.dtype != DType::kBool, op, "boxes has dtype bool, must be a floating or integer type");
  require(p.iou_threshold >= 0.0 && p.iou_threshold <= 1.0, op, "iou_threshold is ",
          p.iou_threshold, ", must be in [0, 1]");
}

namespace {

constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;
constexpr size_t kRadixFrom = 384;  // with fewer keys, comparing is faster

}  // namespace

void sort_keys(std::vector<uint64_t>* keys, bool indices_rise) {
  const size_t count = keys->size();
  if (count < kRadixFrom) {
    std::sort(keys->begin(), keys->end());
    return;
  }
  std::vector<uint64_t> moved(count);
  for (int shift = indices_rise ? 32 : 0; shift < 64; shift += kDigitBits) {
    std::array<size_t, kDigits> position = {};
    for (const uint64_t key : *keys) ++position[(key >> shift) & (kDigits - 1)];
    if (position[((*keys)[0] >> shift) & (kDigits - 1)] == count)
      continue;  // one digit for all keys
    size_t first = 0;
    for (size_t& p : position) {
      const size_t n = p;
      p = first;
      first += n;
    }
    for (const uint64_t key : *keys) moved[position[(key >> shift) & (kDigits - 1)]++] = key;
    keys->swap(moved);
  }
}

void sort_keys(std::vector<WideKey>* keys, bool) {
  std::sort(keys->begin(), keys->end(), [](const WideKey& a, const WideKey& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  });
}

}  // namespace visops
