// NOTE [ Soft suppression on the CPU ]
// Scores only fall (NOTE [ Soft suppression ]), so a score that lacks the latest factors is an
// upper bound. The candidate of the highest bound is brought up to date: it meets the boxes that
// were kept since it was last looked at, sixteen at a time, in their order. As soon as another
// one's bound is higher it goes back to wait; if it is up to date before, nothing can beat it, and
// it is kept. So each pair of a candidate and a kept box is tested at most once, and most never:
// what no longer matters, or falls below min_score early, is not looked at again.
//
// Segments are independent; a task has those that begin in its part of `order`. Assumes what
// check_nms(), check_soft_nms() and the fronts establish.
#include "core/soft_nms.h"

#include "cpu/nms_kept.h"
#include "cpu/nms_segments.h"

namespace visops {
namespace {

constexpr int64_t kOnStack = 384;  // candidates of a segment

template <class Acc>
struct Waiting {
  Acc score;         // at most this
  int32_t position;  // in the segment
  int32_t seen;      // kept boxes that the score takes into account
};

template <class Acc>
class SoftSegment {
 public:
  using Entry = Waiting<Acc>;

  SoftSegment(const SoftNmsParams& p, int64_t begin, int64_t count, KeptBoxes<Acc> kept,
              Entry* heap)
      : p_(p),
        order_(p.candidates.order + begin),
        scores_(static_cast<Acc*>(p.scores) + begin),
        count_(count),
        test_(decay_threshold<Acc>(p)),
        kept_(kept),
        heap_(heap) {}

  void suppress(SegmentOutput output) {
    while (output.left > 0 && (next_ < count_ || waiting_ > 0)) {
      // Candidates that were not looked at yet come from `order`, the others from the heap, in
      // which they stay until it is known what becomes of them: most sink by a place or two.
      const bool waited = !untouched_is_first();
      Entry entry = waited ? heap_[0] : untouched();
      next_ += waited ? 0 : 1;
      const Box<Acc> box = candidate_box<Acc>(p_.candidates, order_[entry.position]);
      const bool inert = is_inert(box);
      const Fate fate = inert ? Fate::kKept : bring_up_to_date(box, &entry, waited);
      if (fate == Fate::kWaits) {
        waited ? sink(entry) : push(entry);
        continue;
      }
      if (waited) pop();
      if (fate == Fate::kOut) continue;
      output.keep(entry.position);
      scores_[entry.position] = entry.score;
      if (!inert) kept_.store(used_++, box);
    }
  }

 private:
  enum class Fate { kKept, kWaits, kOut };

  bool is_before(const Entry& a, const Entry& b) const {
    return a.score != b.score ? a.score > b.score : order_[a.position] < order_[b.position];
  }

  Entry untouched() const { return {scores_[next_], static_cast<int32_t>(next_), 0}; }
  bool untouched_is_first() const {
    return next_ < count_ && (waiting_ == 0 || is_before(untouched(), heap_[0]));
  }

  // Whether it comes before all but the first of the heap, which it is where it `waited`.
  bool is_first(const Entry& entry, bool waited) const {
    if (next_ < count_ && !is_before(entry, untouched())) return false;
    if (!waited) return waiting_ == 0 || is_before(entry, heap_[0]);
    return (waiting_ < 2 || is_before(entry, heap_[1])) &&
           (waiting_ < 3 || is_before(entry, heap_[2]));
  }

  void push(const Entry& entry) {
    int64_t at = waiting_++;
    for (; at > 0 && is_before(entry, heap_[(at - 1) / 2]); at = (at - 1) / 2) {
      heap_[at] = heap_[(at - 1) / 2];
    }
    heap_[at] = entry;
  }

  // Puts `entry` in the place of the first, and to where it belongs.
  void sink(const Entry& entry) {
    int64_t at = 0;
    for (int64_t child = 1; child < waiting_; child = 2 * at + 1) {
      if (child + 1 < waiting_ && is_before(heap_[child + 1], heap_[child])) ++child;
      if (is_before(entry, heap_[child])) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = entry;
  }

  void pop() {
    const Entry last = heap_[--waiting_];
    if (waiting_ > 0) sink(last);
  }

  Fate bring_up_to_date(const Box<Acc>& box, Entry* entry, bool waited) const {
    for (int64_t i = entry->seen; i < used_; i += kRun) {
      if (!test_.may_meet_run(box, kept_, i)) continue;
      Acc iou[kRun];
      for_each_of_run(box, kept_, i, [&](int l, bool meets, Acc inter, Acc all) {
        iou[l] = meets ? inter / all : static_cast<Acc>(0);
      });
      for (int l = 0; l < kRun; ++l) {  // those beyond used_ are 0
        if (!(iou[l] > test_.threshold)) continue;
        entry->score = decayed(p_, entry->score, iou[l]);
        if (entry->score < static_cast<Acc>(0)) return Fate::kOut;
      }
      entry->seen = static_cast<int32_t>(i + kRun < used_ ? i + kRun : used_);
      if (!is_first(*entry, waited)) return Fate::kWaits;
    }
    return Fate::kKept;
  }

  const SoftNmsParams& p_;
  const int64_t* order_;
  Acc* scores_;
  const int64_t count_;
  const OverlapTest<Acc> test_;
  KeptBoxes<Acc> kept_;
  int64_t used_ = 0;  // of kept_
  int64_t next_ = 0;  // first untouched one
  Entry* heap_;
  int64_t waiting_ = 0;  // of heap_
};

template <class Acc>
void suppress(const SoftNmsParams& p, int64_t begin, int64_t count) {
  using Entry = Waiting<Acc>;
  const SegmentOutput output(p.candidates, begin, count);
  if (count <= kOnStack) {
    alignas(64) Acc memory[KeptBoxes<Acc>::elements(kOnStack)];
    Entry heap[kOnStack];
    const KeptBoxes<Acc> kept(memory, count);
    return SoftSegment<Acc>(p, begin, count, kept, heap).suppress(output);
  }
  constexpr int64_t kKeptElements = 6;  // a candidate, padding included
  static_assert(KeptBoxes<Acc>::elements(kOnStack + 1) <= kKeptElements * (kOnStack + 1));
  static_assert(sizeof(Entry) <= 16, "soft_nms_scratch_bytes()");
  auto* entries = static_cast<Entry*>(p.candidates.scratch);
  auto* elements = reinterpret_cast<Acc*>(entries + p.candidates.count);
  const KeptBoxes<Acc> kept(elements + begin * kKeptElements, count);
  SoftSegment<Acc>(p, begin, count, kept, entries + begin).suppress(output);
}

void soft_nms_kernel(const SoftNmsParams& p, int64_t begin, int64_t end) {
  for_each_segment(p.candidates, begin, end, [&](int64_t first, int64_t count) {
    if (p.in_double) {
      suppress<double>(p, first, count);
    } else {
      suppress<float>(p, first, count);
    }
  });
}

const bool registered = soft_nms_stub.set(kIsaSlot, soft_nms_kernel);

}  // namespace
}  // namespace visops
