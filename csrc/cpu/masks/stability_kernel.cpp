// How stable masks are, on the CPU.
//
// NOTE [ Stability on the CPU ]
// Both counts are made in one pass, in 32-bit integers over blocks of kBlock numbers, which the
// compiler compares and adds in vectors. Split: by masks.
#include "core/masks/packed.h"
#include "core/numbers/element.h"
#include "cpu/items.h"

namespace visops {
namespace {

constexpr int64_t kBlock = 4096;

template <class T>
float score_of(const StabilityParams& p, int64_t k) {
  using Acc = typename Accumulate<T>::type;
  const T* logits = static_cast<const T*>(p.logits) + k * p.pixels;
  const Acc low = static_cast<Acc>(p.low), high = static_cast<Acc>(p.high);
  int64_t above_low = 0, above_high = 0;
  for (int64_t first = 0; first < p.pixels; first += kBlock) {
    const int64_t end = p.pixels - first < kBlock ? p.pixels : first + kBlock;
    int32_t lower = 0, higher = 0;
    for (int64_t i = first; i < end; ++i) {
      const Acc value = load_element(logits + i);
      lower += value > low ? 1 : 0;
      higher += value > high ? 1 : 0;
    }
    above_low += lower;
    above_high += higher;
  }
  return stability_of(above_high, above_low);
}

void stability_range(const StabilityParams& p, int64_t begin, int64_t end) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    for (int64_t k = begin; k < end; ++k) p.scores[k] = score_of<T>(p, k);
  });
}

void stability_kernel(const StabilityParams& p, Workspace& workspace) {
  for_items(workspace, p, p.count, p.pixels, stability_range);
}

const bool registered = stability_stub.set(kIsaSlot, stability_kernel);

}  // namespace
}  // namespace visops
