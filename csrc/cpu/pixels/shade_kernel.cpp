// NOTE: A row at a time, whose factors all channels share. NOTE [ Shading ]
// (core/pixels/shading.h).
#include "core/pixels/shading.h"

namespace visops {
namespace {

template <class T>
void shade_row(const float* VISOPS_RESTRICT factor, int64_t width, T* VISOPS_RESTRICT row) {
  for (int64_t x = 0; x < width; ++x) row[x] = shaded(row[x], factor[x]);
}

template <class T>
void shade_channels(const ShadeParams& p) {
  for (int64_t c = 0; c < p.channels; ++c) {
    shade_row(p.factor, p.width, static_cast<T*>(p.row) + c * p.plane);
  }
}

void shade_kernel(const ShadeParams& p, Workspace&) {
  p.dtype == DType::kUInt8 ? shade_channels<uint8_t>(p) : shade_channels<float>(p);
}

const bool registered = shade_stub.set(kIsaSlot, shade_kernel);

}  // namespace
}  // namespace visops
