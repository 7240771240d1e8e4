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

#include <algorithm>

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
      Entry entry = pop();
      const Box<Acc> box = candidate_box<Acc>(p_.candidates, order_[entry.position]);
      const bool inert = is_inert(box);
      if (!inert && !bring_up_to_date(box, &entry)) continue;
      output.keep(entry.position);
      scores_[entry.position] = entry.score;
      if (!inert) kept_.store(used_++, box);
    }
  }

 private:
  bool is_before(const Entry& a, const Entry& b) const {
    return a.score != b.score ? a.score > b.score : order_[a.position] < order_[b.position];
  }

  // Candidates that were not looked at yet come from `order`, the others from the heap.
  Entry first_untouched() const { return {scores_[next_], static_cast<int32_t>(next_), 0}; }
  bool untouched_is_first() const {
    return next_ < count_ && (waiting_ == 0 || is_before(first_untouched(), heap_[0]));
  }

  Entry pop() {
    if (untouched_is_first()) {
      const Entry entry = first_untouched();
      ++next_;
      return entry;
    }
    std::pop_heap(heap_, heap_ + waiting_,
                  [this](const Entry& a, const Entry& b) { return is_before(b, a); });
    return heap_[--waiting_];
  }

  void push(const Entry& entry) {
    heap_[waiting_++] = entry;
    std::push_heap(heap_, heap_ + waiting_,
                   [this](const Entry& a, const Entry& b) { return is_before(b, a); });
  }

  bool is_first(const Entry& entry) const {
    if (next_ < count_ && !is_before(entry, first_untouched())) return false;
    return waiting_ == 0 || is_before(entry, heap_[0]);
  }

  // False where the candidate is not the first any more: it waits, or is out.
  bool bring_up_to_date(const Box<Acc>& box, Entry* entry) {
    for (int64_t i = entry->seen; i < used_; i += kRun) {
      if (!test_.may_meet_run(box, kept_, i)) continue;
      Acc iou[kRun];
      for_each_of_run(box, kept_, i, [&](int l, bool meets, Acc inter, Acc all) {
        iou[l] = meets ? inter / all : static_cast<Acc>(0);
      });
      for (int l = 0; l < kRun; ++l) {  // those beyond used_ are 0
        if (iou[l] > test_.threshold) entry->score = decayed(p_, entry->score, iou[l]);
        if (entry->score < static_cast<Acc>(0)) return false;
      }
      entry->seen = static_cast<int32_t>(std::min(i + kRun, used_));
      if (!is_first(*entry)) {
        push(*entry);
        return false;
      }
    }
    return true;
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
