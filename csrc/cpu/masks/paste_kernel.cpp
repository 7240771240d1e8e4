// Masks pasted into images, on the CPU.
//
// NOTE [ Pasting masks on the CPU ]
// Strategy: rows of the result are cleared, and only pixels that a box reaches are written again,
// while the row's bytes are still in the cache. A mask goes through its box in strips of
// kRowColumns columns, whole words of bits; a row of a strip is sampled in vectors (NOTE [ Sampled
// rows ] in cpu/sampled_rows.h), then stored as numbers, or compared and stored as bytes or bits.
//
// Split: by rows of all masks. Each pixel is rounded once, when it is sampled, and numbers once
// more where they are stored as 16 bits. Assumes what check_paste_masks() establishes.
#include "core/element_types.h"
#include "core/grain.h"
#include "core/masks/packed.h"
#include "core/masks/paste.h"
#include "core/workspace.h"
#include "cpu/rows.h"
#include "cpu/sampled_rows.h"
#include "cpu/simd/bits.h"

namespace visops {
namespace {

static_assert(kRowColumns % kPixelsPerWord == 0, "strips are whole words");

// One row of one strip: `count` samples from column `begin` on.
template <class Acc>
struct SampledStrip {
  const Acc* samples;
  int64_t begin, count;
};

// How results are stored. clear() sets rows of a mask to 0; store() writes a part of a row.
template <class T>
class Numbers {
 public:
  explicit Numbers(const PasteMasksParams& p) : p_(p) {}

  void clear(int64_t row, int64_t rows) const {
    memset(at(row), 0, static_cast<size_t>(rows * p_.width) * sizeof(T));
  }
  template <class Acc>
  void store(int64_t row, const SampledStrip<Acc>& strip) const {
    store_run(at(row) + strip.begin, strip.samples, strip.count);
  }

 private:
  T* at(int64_t row) const { return static_cast<T*>(p_.output) + row * p_.width; }
  const PasteMasksParams& p_;
};

template <class Acc>
VISOPS_ALWAYS_INLINE void compare(const PasteMasksParams& p, const SampledStrip<Acc>& strip,
                                  uint8_t* VISOPS_RESTRICT inside) {
  const Acc threshold = static_cast<Acc>(p.threshold);
  const Acc* VISOPS_RESTRICT samples = strip.samples;
  if (p.convention == PasteConvention::kDetectron2) {
    for (int64_t i = 0; i < strip.count; ++i) inside[i] = samples[i] >= threshold;
  } else {
    for (int64_t i = 0; i < strip.count; ++i) inside[i] = samples[i] > threshold;
  }
}

class Bytes {
 public:
  explicit Bytes(const PasteMasksParams& p) : p_(p) {}

  void clear(int64_t row, int64_t rows) const {
    memset(at(row), 0, static_cast<size_t>(rows * p_.width));
  }
  template <class Acc>
  void store(int64_t row, const SampledStrip<Acc>& strip) const {
    compare(p_, strip, at(row) + strip.begin);
  }

 private:
  uint8_t* at(int64_t row) const { return static_cast<uint8_t*>(p_.output) + row * p_.width; }
  const PasteMasksParams& p_;
};

class Bits {
 public:
  explicit Bits(const PasteMasksParams& p) : p_(p), words_(words_of(p.width)) {}

  void clear(int64_t row, int64_t rows) const {
    memset(at(row), 0, static_cast<size_t>(rows * words_) * sizeof(uint64_t));
  }
  // No word belongs to two strips.
  template <class Acc>
  void store(int64_t row, const SampledStrip<Acc>& strip) const {
    uint8_t inside[kRowColumns] = {};
    const int64_t first = strip.begin / kRowColumns * kRowColumns;
    compare(p_, strip, inside + (strip.begin - first));
    uint64_t* words = at(row) + first / kPixelsPerWord;
    const int64_t end = strip.begin + strip.count - first;
    for (int64_t i = 0; i < end; i += kPixelsPerWord) {
      words[i / kPixelsPerWord] = nonzero_bits(inside + i);
    }
  }

 private:
  uint64_t* at(int64_t row) const { return static_cast<uint64_t*>(p_.output) + row * words_; }
  const PasteMasksParams& p_;
  int64_t words_;
};

template <class Acc, class Store>
void paste_rows(const PasteMasksParams& p, int64_t k, Span rows, const Store& store) {
  store.clear(k * p.height + rows.begin, rows.end - rows.begin);
  const PasteMap<Acc> map = paste_masks_map<Acc>(p, k);
  rows = intersect(rows, map.y.pixels);
  if (rows.begin == rows.end) return;
  const double fill = 0.0;
  const SampledPlane<Acc> plane = {
      static_cast<const Acc*>(p.masks) + k * p.mask_height * p.mask_width,
      p.mask_width,
      1,
      1,
      &fill,
      0};
  const Padding padding = padding_of(p.convention, p.padding);
  RowSampler<Acc, Interpolation::kBilinear> sampler;
  const int64_t strips = map.x.pixels.begin / kRowColumns * kRowColumns;
  for (int64_t x0 = strips; x0 < map.x.pixels.end; x0 += kRowColumns) {
    const Span columns = intersect(map.x.pixels, {x0, x0 + kRowColumns});
    sampler.set_columns([&](int64_t x) { return paste_sample(map.x, x); }, columns, padding,
                        p.mask_width, 1);
    const Span reached = sampler.touching();
    if (reached.begin == reached.end) continue;
    alignas(64) Acc samples[kRowColumns];
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      const auto taps = paste_taps(map.y, y);
      if (taps.outside()) continue;
      sampler.sample(plane, taps, samples);
      store.store(k * p.height + y,
                  SampledStrip<Acc>{samples + reached.begin, columns.begin + reached.begin,
                                    reached.end - reached.begin});
    }
  }
}

template <class Acc, class Store>
void paste_all(const PasteMasksParams& p, Workspace& workspace) {
  parallel_for(workspace, p.count * p.height, grain_of(p.width), [&](int64_t begin, int64_t end) {
    for_each_sample(begin, end, p.height, [&](int64_t k, int64_t first, int64_t last) {
      paste_rows<Acc>(p, k, {first, last}, Store(p));
    });
  });
}

template <class Acc>
void paste_as(const PasteMasksParams& p, Workspace& workspace) {
  switch (p.form) {
    case PastedForm::kBytes: return paste_all<Acc, Bytes>(p, workspace);
    case PastedForm::kBits: return paste_all<Acc, Bits>(p, workspace);
    case PastedForm::kFloating: break;
  }
  if constexpr (sizeof(Acc) == sizeof(double)) {
    paste_all<Acc, Numbers<double>>(p, workspace);
  } else if (p.output_dtype == DType::kFloat16) {
    paste_all<Acc, Numbers<Half>>(p, workspace);
  } else if (p.output_dtype == DType::kBFloat16) {
    paste_all<Acc, Numbers<BFloat16>>(p, workspace);
  } else {
    paste_all<Acc, Numbers<float>>(p, workspace);
  }
}

void paste_masks_kernel(const PasteMasksParams& p, Workspace& workspace) {
  p.dtype == DType::kFloat64 ? paste_as<double>(p, workspace) : paste_as<float>(p, workspace);
}

const bool registered = paste_masks_stub.set(kIsaSlot, paste_masks_kernel);

}  // namespace
}  // namespace visops
