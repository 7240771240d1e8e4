// Masks pasted into images, on the CPU.
//
// NOTE [ Pasting masks on the CPU ]
// Strategy: the result is 0 when the kernel starts (pages that nobody has touched, if it is large),
// and only pixels that a box reaches are written. Where columns lie on the mask is computed once
// for all rows, kStrip of them at a time. In each row, the mask's two rows that it lies between are
// blended first, over all columns that the strip needs; then every pixel blends two neighbours of
// the result. This is the order of NOTE [ One pixel ] in core/images/pixel.h, so the bits are those
// of the scalar code, which strips run that need too many columns. Columns beyond the mask get
// positions of their own, so that a pixel's two are always adjacent. Numbers are then stored, or
// compared and stored as bytes or bits.
//
// Split: by rows of all masks. Each number is rounded when it is sampled, and once more if it is
// stored as 16 bits. Assumes what check_paste_masks() establishes.
#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "core/masks/paste.h"
#include "core/numbers/element.h"
#include "cpu/items.h"
#include "cpu/masks/lerp_row.h"
#include "cpu/simd/bits.h"

namespace visops {
namespace {

constexpr auto kBilinear = Interpolation::kBilinear;
constexpr int64_t kStrip = 1024;      // columns of the image
constexpr int64_t kPositions = 2048;  // columns of the mask that a strip may need
constexpr int64_t kMargin = 64;       // elements that vectors may read or write beyond
static_assert(kStrip % kPixelsPerWord == 0, "strips are whole words");

// Where the columns of a strip lie on the mask. Samples are those of columns `reached`.
template <class Acc>
class StripColumns {
 public:
  void set(const PasteAxis<Acc>& axis, Span columns) {
    padding_ = padding_of(axis.convention, axis.padding);
    size_ = axis.size;
    reached_ = {columns.begin, columns.begin};
    int64_t count = 0, last = 0;
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      const AxisSample<Acc> sample = paste_sample(axis, x);
      const auto taps = axis_taps<kBilinear>(sample, padding_, size_);
      if (taps.outside()) continue;  // only before and after those that are reached
      if (count == 0) {
        reached_.begin = x;
        first_ = sample.tap;
      }
      reached_.end = x + 1;
      last = sample.tap + 1;
      taps_[count] = taps;
      offset_[count] = static_cast<int32_t>(sample.tap - first_);
      weight_[count++] = sample.weight;
    }
    positions_ = count > 0 ? last - first_ + 1 : 0;
    is_near_ = are_near(offset_, count);
    for (int64_t i = count; i < count + kMargin; ++i) {
      offset_[i] = count > 0 ? offset_[count - 1] : 0;
      weight_[i] = static_cast<Acc>(0);
    }
  }

  Span reached() const { return reached_; }

  // samples[i] of column reached().begin + i; writes up to kMargin more.
  void sample(const Acc* mask, int64_t mask_width, const AxisTaps<kBilinear, Acc>& rows,
              Acc* samples) const {
    const int64_t count = reached_.end - reached_.begin;
    if (positions_ > kPositions) {
      for (int64_t i = 0; i < count; ++i) {
        const PixelTaps<kBilinear, Acc> taps = {rows, taps_[i]};
        samples[i] = sample_pixel(mask, Strides{0, 0, mask_width, 1}, taps, static_cast<Acc>(0));
      }
      return;
    }
    alignas(64) Acc v[kPositions + kMargin];
    blend_rows(mask, mask_width, rows, v);
    blend_columns(offset_, weight_, v, positions_, is_near_, count, samples);
  }

 private:
  // v[position]: the two rows, blended.
  void blend_rows(const Acc* mask, int64_t mask_width, const AxisTaps<kBilinear, Acc>& rows,
                  Acc* VISOPS_RESTRICT v) const {
    const Acc* above = rows.index[0] < 0 ? nullptr : mask + rows.index[0] * mask_width;
    const Acc* below = rows.index[1] < 0 ? nullptr : mask + rows.index[1] * mask_width;
    const Acc zero = static_cast<Acc>(0), t = rows.t;
    const Span inside = intersect({first_, first_ + positions_}, {0, size_});
    Acc* VISOPS_RESTRICT out = v + (inside.begin - first_);
    const int64_t count = inside.end - inside.begin;
    if (above != nullptr && below != nullptr) {
      const Acc* VISOPS_RESTRICT a = above + inside.begin;
      const Acc* VISOPS_RESTRICT b = below + inside.begin;
      for (int64_t i = 0; i < count; ++i) out[i] = a[i] + t * (b[i] - a[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const Acc a = above != nullptr ? above[inside.begin + i] : zero;
        const Acc b = below != nullptr ? below[inside.begin + i] : zero;
        out[i] = a + t * (b - a);
      }
    }
    const bool repeats = padding_ == Padding::kReplicate;
    for (int64_t i = 0; i < inside.begin - first_; ++i) v[i] = repeats ? out[0] : zero;
    for (int64_t i = inside.end - first_; i < positions_; ++i) {
      v[i] = repeats ? out[count - 1] : zero;
    }
  }

  Padding padding_ = Padding::kConstant;
  Span reached_ = {0, 0};
  int64_t size_ = 0, first_ = 0, positions_ = 0;
  bool is_near_ = false;  // are offsets
  AxisTaps<kBilinear, Acc> taps_[kStrip];
  alignas(64) int32_t offset_[kStrip + kMargin];
  alignas(64) Acc weight_[kStrip + kMargin];
};

// How results are stored: store() writes `count` samples of a row from column `begin` on.
template <class T>
class Numbers {
 public:
  explicit Numbers(const PasteMasksParams& p) : p_(p) {}

  template <class Acc>
  void store(int64_t row, int64_t begin, int64_t count, const Acc* VISOPS_RESTRICT samples) const {
    T* VISOPS_RESTRICT out = static_cast<T*>(p_.output) + row * p_.width + begin;
    for (int64_t i = 0; i < count; ++i) store_element(out + i, samples[i]);
  }

 private:
  const PasteMasksParams& p_;
};

template <class Acc>
VISOPS_ALWAYS_INLINE void compare(const PasteMasksParams& p, int64_t count,
                                  const Acc* VISOPS_RESTRICT samples,
                                  uint8_t* VISOPS_RESTRICT inside) {
  const Acc threshold = static_cast<Acc>(p.threshold);
  if (p.convention == PasteConvention::kDetectron2) {
    for (int64_t i = 0; i < count; ++i) inside[i] = samples[i] >= threshold ? 1 : 0;
  } else {
    for (int64_t i = 0; i < count; ++i) inside[i] = samples[i] > threshold ? 1 : 0;
  }
}

class Bytes {
 public:
  explicit Bytes(const PasteMasksParams& p) : p_(p) {}

  template <class Acc>
  void store(int64_t row, int64_t begin, int64_t count, const Acc* samples) const {
    compare(p_, count, samples, static_cast<uint8_t*>(p_.output) + row * p_.width + begin);
  }

 private:
  const PasteMasksParams& p_;
};

class Bits {
 public:
  explicit Bits(const PasteMasksParams& p) : p_(p), words_(words_of(p.width)) {}

  // No word belongs to two strips.
  template <class Acc>
  void store(int64_t row, int64_t begin, int64_t count, const Acc* samples) const {
    alignas(64) uint8_t inside[kStrip + 2 * kPixelsPerWord];
    const int64_t word = begin / kPixelsPerWord, before = begin - word * kPixelsPerWord;
    memset(inside, 0, kPixelsPerWord);
    compare(p_, count, samples, inside + before);
    memset(inside + before + count, 0, kPixelsPerWord);
    uint64_t* words = static_cast<uint64_t*>(p_.output) + row * words_ + word;
    for (int64_t i = 0; i < before + count; i += kPixelsPerWord) {
      words[i / kPixelsPerWord] = nonzero_bits(inside + i);
    }
  }

 private:
  const PasteMasksParams& p_;
  int64_t words_;
};

template <class Acc, class Store>
void paste_rows(const PasteMasksParams& p, int64_t k, Span rows, const Store& store) {
  const PasteMap<Acc> map = paste_masks_map<Acc>(p, k);
  rows = intersect(rows, map.y.pixels);
  if (rows.begin == rows.end) return;
  const Acc* mask = static_cast<const Acc*>(p.masks) + k * p.mask_height * p.mask_width;
  StripColumns<Acc> columns;
  const Span all = map.x.pixels;
  for (int64_t x0 = all.begin / kStrip * kStrip; x0 < all.end; x0 += kStrip) {
    columns.set(map.x, intersect(all, {x0, x0 + kStrip}));
    const Span reached = columns.reached();
    if (reached.begin == reached.end) continue;
    alignas(64) Acc samples[kStrip + kMargin];
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      const auto taps = paste_taps(map.y, y);
      if (taps.outside()) continue;
      columns.sample(mask, p.mask_width, taps, samples);
      store.store(k * p.height + y, reached.begin, reached.end - reached.begin, samples);
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
