// The entries of bins along one axis, listed once for all channels and all bins along the other.
//
// A Stream yields the entries of one bin: Stream(axis, ..., bin), then next(), which returns null
// after the last. BinLists holds the entries of as many bins as fit and yields them as a Cursor,
// which has the same next(). A bin that does not fit is rare (it has hundreds of pixels) and is
// read as a stream.
#pragma once

#include "core/roi/gradient.h"

namespace visops {
namespace {

template <class Entry>
class Cursor {
 public:
  Cursor(const Entry* begin, const Entry* end) : at_(begin), end_(end) {}
  int64_t size() const { return end_ - at_; }
  VISOPS_ALWAYS_INLINE const Entry* next() { return at_ == end_ ? nullptr : at_++; }

 private:
  const Entry *at_, *end_;
};

template <class Stream>
class BinLists {
 public:
  using Entry = typename Stream::Entry;

  // Lists bins from `bin` on unless it is listed already; false if it does not fit.
  template <class... Arguments>
  bool has(int64_t bin, int64_t bins, const Arguments&... arguments) {
    if (bin >= first_ && bin < last_) return true;
    first_ = last_ = bin;
    ends_[0] = 0;
    while (last_ < bins && last_ - first_ < kBins && append(Stream(arguments..., last_))) ++last_;
    return last_ > first_;
  }

  // A listed bin's first entry, if any.
  const Entry* first(int64_t bin) const {
    return bin >= first_ && bin < last_ ? cursor(bin).next() : nullptr;
  }

  VISOPS_ALWAYS_INLINE Cursor<Entry> cursor(int64_t bin) const {
    return {entries_ + ends_[bin - first_], entries_ + ends_[bin - first_ + 1]};
  }

 private:
  static constexpr int64_t kBins = 128, kEntries = 512;

  bool append(Stream stream) {
    int32_t end = ends_[last_ - first_];
    for (const Entry* entry = stream.next(); entry != nullptr; entry = stream.next()) {
      if (end == kEntries) return false;
      entries_[end++] = *entry;
    }
    ends_[last_ - first_ + 1] = end;
    return true;
  }

  int64_t first_ = 0, last_ = 0;
  int32_t ends_[kBins + 1];
  Entry entries_[kEntries];
};

}  // namespace
}  // namespace visops
