// Instructions that a warp's lanes execute together.
#include <cmath>
#include <cstring>

#include "select.h"

namespace ptx {
namespace {

// Membership: an immediate or a register's value, a lane's own.
uint32_t mask_of(const Warp& w, const Instruction& i, int lane) {
  return w.at<uint32_t>(i.members)[lane];
}

enum class Mode { kUp, kDown, kBfly, kIdx };

// The lane that this one reads, its own where that is out of range.
template <Mode mode>
int source_lane(int l, uint32_t b, uint32_t c, bool* valid) {
  const int by = b & 31, clamp = c & 31, segment = c >> 8 & 31;
  const int most = (l & segment) | (clamp & ~segment & 31), least = l & segment;
  int from = 0;
  if constexpr (mode == Mode::kUp) from = l - by, *valid = from >= most;
  if constexpr (mode == Mode::kDown) from = l + by, *valid = from <= most;
  if constexpr (mode == Mode::kBfly) from = l ^ by, *valid = from <= most;
  if constexpr (mode == Mode::kIdx) from = least | (by & ~segment & 31), *valid = from <= most;
  return *valid ? from : l;
}

// d and v[0] (whether the source was in range), a: value, b: distance, c: clamp.
template <Mode mode>
void shuffle(Warp& w, const Instruction& i) {
  const uint32_t* a = w.at<uint32_t>(i.a);
  const uint32_t* b = w.at<uint32_t>(i.b);
  const uint32_t* c = w.at<uint32_t>(i.c);
  uint32_t result[kLanes], in_range = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (!(w.active >> l & 1)) continue;
    bool valid;
    const int from = source_lane<mode>(l, b[l], c[l], &valid);
    const uint32_t mask = mask_of(w, i, l);
    if (!(w.active >> from & 1) || !(mask >> from & 1)) {
      fail(w, i, l, "a shuffle reads lane " + std::to_string(from) + ", which takes no part in it");
    }
    result[l] = a[from];
    in_range |= uint32_t{valid} << l;
  }
  for (int l = 0; l < kLanes; ++l) {
    if (w.active >> l & 1) w.at<uint32_t>(i.d)[l] = result[l];
  }
  if (i.v[0] != kNowhere) {
    uint32_t& p = w.predicate(i.v[0]);
    p = (p & ~w.active) | (in_range & w.active);
  }
}

// For VISOPS_PTX_CHECK: which lanes get a value, given which have one.
template <Mode mode>
uint32_t shuffled(const Warp& w, const Instruction& i, uint32_t has) {
  uint32_t result = 0;
  for (int l = 0; l < kLanes; ++l) {
    bool valid;
    const int from = source_lane<mode>(l, w.at<uint32_t>(i.b)[l], w.at<uint32_t>(i.c)[l], &valid);
    result |= (has >> from & 1) << l;
  }
  return result;
}

enum class Vote { kAny, kAll, kUni, kBallot };

// d: a predicate, or a register for ballots; a: a predicate.
template <Vote mode>
void vote(Warp& w, const Instruction& i) {
  const uint32_t votes = i.negated ? ~w.predicate(i.a) : w.predicate(i.a);
  uint32_t result = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (!(w.active >> l & 1)) continue;
    const uint32_t members = mask_of(w, i, l) & w.active, yes = votes & members;
    if constexpr (mode == Vote::kBallot) w.at<uint32_t>(i.d)[l] = yes;
    const bool is = mode == Vote::kAny   ? yes != 0
                    : mode == Vote::kAll ? yes == members
                                         : yes == 0 || yes == members;
    result |= uint32_t{is} << l;
  }
  if constexpr (mode != Vote::kBallot) {
    uint32_t& d = w.predicate(i.d);
    d = (d & ~w.active) | (result & w.active);
  }
}

#define PTX_REDUCTION(name, ...)          \
  struct name {                           \
    template <class T>                    \
    static T of(T a, T b) {               \
      return static_cast<T>(__VA_ARGS__); \
    }                                     \
  };
PTX_REDUCTION(ReduceAdd, a + b)
PTX_REDUCTION(ReduceMin, b < a ? b : a)
PTX_REDUCTION(ReduceMax, b > a ? b : a)
PTX_REDUCTION(ReduceAnd, a& b)
PTX_REDUCTION(ReduceOr, a | b)
PTX_REDUCTION(ReduceXor, a ^ b)
#undef PTX_REDUCTION

template <class Op, class T>
void redux(Warp& w, const Instruction& i) {
  T result[kLanes] = {};
  for (int l = 0; l < kLanes; ++l) {
    if (!(w.active >> l & 1)) continue;
    const uint32_t members = mask_of(w, i, l) & w.active;
    bool any = false;
    for (int other = 0; other < kLanes; ++other) {
      if (!(members >> other & 1)) continue;
      const T value = w.at<T>(i.a)[other];
      result[l] = any ? Op::of(result[l], value) : value;
      any = true;
    }
  }
  for (int l = 0; l < kLanes; ++l) {
    if (w.active >> l & 1) w.at<T>(i.d)[l] = result[l];
  }
}

void do_nothing(Warp&, const Instruction&) {}

}  // namespace

Run find_shuffle(const std::string& mode) {
  if (mode == "up") return shuffle<Mode::kUp>;
  if (mode == "down") return shuffle<Mode::kDown>;
  if (mode == "bfly") return shuffle<Mode::kBfly>;
  if (mode == "idx") return shuffle<Mode::kIdx>;
  return nullptr;
}
uint32_t shuffled_lanes(const Warp& w, const Instruction& i, uint32_t has) {
  if (i.run == &shuffle<Mode::kUp>) return shuffled<Mode::kUp>(w, i, has);
  if (i.run == &shuffle<Mode::kDown>) return shuffled<Mode::kDown>(w, i, has);
  if (i.run == &shuffle<Mode::kBfly>) return shuffled<Mode::kBfly>(w, i, has);
  return shuffled<Mode::kIdx>(w, i, has);
}
Run find_vote(const std::string& mode) {
  if (mode == "any") return vote<Vote::kAny>;
  if (mode == "all") return vote<Vote::kAll>;
  if (mode == "uni") return vote<Vote::kUni>;
  if (mode == "ballot") return vote<Vote::kBallot>;
  return nullptr;
}
Run find_redux(const std::string& operation, const std::string& type) {
  const std::string name = operation + "." + type;
  if (name == "add.u32" || name == "add.s32") return redux<ReduceAdd, uint32_t>;
  if (name == "min.u32") return redux<ReduceMin, uint32_t>;
  if (name == "max.u32") return redux<ReduceMax, uint32_t>;
  if (name == "min.s32") return redux<ReduceMin, int32_t>;
  if (name == "max.s32") return redux<ReduceMax, int32_t>;
  if (name == "and.b32") return redux<ReduceAnd, uint32_t>;
  if (name == "or.b32") return redux<ReduceOr, uint32_t>;
  if (name == "xor.b32") return redux<ReduceXor, uint32_t>;
  return nullptr;
}
Run nothing() { return do_nothing; }

uint32_t ready_lanes(Warp& w, const Instruction& i, uint32_t arrived) {
  uint32_t ready = 0, left = arrived;
  while (left != 0) {
    const int l = __builtin_ctz(left);
    const uint32_t mask = mask_of(w, i, l);
    uint32_t with_it = 0;
    for (int other = l; other < kLanes; ++other) {
      if ((left >> other & 1) && mask_of(w, i, other) == mask) with_it |= 1u << other;
    }
    left &= ~with_it;
    if (with_it & ~mask)
      fail(w, i, __builtin_ctz(with_it & ~mask), "a thread is not in the mask that it passes");
    if (with_it == (mask & w.alive)) ready |= with_it;
  }
  return ready;
}

}  // namespace ptx
