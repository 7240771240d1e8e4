// VISOPS_PTX_CHECK: which registers of which lanes, and which bytes of shared memory, have values.
//
// Undefined values may be moved, selected, stored to shared memory and computed with; they must not
// decide a branch, be an address, or reach global memory. Local memory counts as defined.
#include "code.h"

namespace ptx {
namespace {

uint32_t defined(const Warp& w, int number) { return number < 0 ? kAll : w.defined[number]; }

void need(const Warp& w, const Instruction& i, uint32_t has, const char* what) {
  const uint32_t lacks = w.active & ~has;
  if (lacks != 0) note(w, i, __builtin_ctz(lacks), std::string(what) + " has no value");
}

void set(Warp& w, int number, uint32_t has) {
  if (number >= 0) w.defined[number] = (w.defined[number] & ~w.active) | (has & w.active);
}

uint64_t address(const Warp& w, const Instruction& i, int lane) {
  return i.wide
             ? w.at<uint64_t>(i.a)[lane] + static_cast<uint64_t>(i.offset)
             : static_cast<uint32_t>(w.at<uint32_t>(i.a)[lane] + static_cast<uint32_t>(i.offset));
}

// Where an address is in shared memory; null for what is elsewhere.
unsigned char* shared_bytes(const Warp& w, const Flow& f, uint64_t at, size_t bytes) {
  const Launch& launch = *w.launch;
  if (f.space == Space::kGeneric)
    at -= reinterpret_cast<uint64_t>(launch.shared);
  else if (f.space != Space::kShared)
    return nullptr;
  return at < launch.shared_bytes && at + bytes <= launch.shared_bytes ? launch.shared_written + at
                                                                       : nullptr;
}

}  // namespace

void check_before(Warp& w, const Instruction& i) {
  const Flow& f = w.launch->kernel->flows[i.number];
  uint32_t all = kAll;
  for (const int n : f.reads) all &= defined(w, n);
  switch (f.kind) {
    case Flow::kPlain: break;
    case Flow::kSelect: {
      const uint32_t p = w.predicate(i.c);
      all = defined(w, f.reads[2]) & ((p & defined(w, f.reads[0])) | (~p & defined(w, f.reads[1])));
      break;
    }
    case Flow::kAnd:
    case Flow::kOr: {
      const uint32_t a = defined(w, f.reads[0]), b = defined(w, f.reads[1]);
      const uint32_t flip = f.kind == Flow::kAnd ? kAll : 0;
      all |= (a & (w.predicate(i.a) ^ flip)) | (b & (w.predicate(i.b) ^ flip));
      break;
    }
    case Flow::kLoad: {
      need(w, i, defined(w, f.reads[0]), "the address");
      const size_t bytes = i.access_bytes / f.writes.size();
      for (size_t k = 0; k < f.writes.size(); ++k) {
        uint32_t has = kAll;
        for (int l = 0; l < kLanes; ++l) {
          if (!(w.active >> l & 1)) continue;
          const unsigned char* written = shared_bytes(w, f, address(w, i, l) + k * bytes, bytes);
          for (size_t b = 0; written != nullptr && b < bytes; ++b) {
            if (!written[b]) has &= ~(1u << l);
          }
        }
        set(w, f.writes[k], has);
      }
      return;
    }
    case Flow::kStore: return;
    case Flow::kAtomic: need(w, i, all, "an operand"); break;
    case Flow::kShuffle: {
      need(w, i, defined(w, f.reads[1]) & defined(w, f.reads[2]) & defined(w, f.reads[3]),
           "a lane, width or mask");
      const uint32_t has = defined(w, f.reads[0]);
      all = has == kAll ? kAll : shuffled_lanes(w, i, has);
      break;
    }
    case Flow::kNeeded: need(w, i, all, "an operand"); break;
  }
  for (const int n : f.writes) set(w, n, all);
}

void check_after(Warp& w, const Instruction& i) {
  const Flow& f = w.launch->kernel->flows[i.number];
  if (f.kind != Flow::kStore) return;
  need(w, i, defined(w, f.reads[0]), "the address");
  const size_t bytes = i.access_bytes / (f.reads.size() - 1);
  for (size_t k = 1; k < f.reads.size(); ++k) {
    const uint32_t lacks = w.active & ~defined(w, f.reads[k]);
    if (lacks == 0) continue;
    for (int l = 0; l < kLanes; ++l) {
      if (!(lacks >> l & 1)) continue;
      unsigned char* written = shared_bytes(w, f, address(w, i, l) + (k - 1) * bytes, bytes);
      if (written != nullptr) {
        for (size_t b = 0; b < bytes; ++b) written[b] = 0;
      } else if (f.space == Space::kGlobal || f.space == Space::kGeneric) {
        note(w, i, l, "what is stored has no value");
      }
    }
  }
}

void check_branch(const Warp& w, const Basic& b, uint32_t active) {
  const uint32_t lacks = active & ~defined(w, b.guard_register);
  if (lacks == 0) return;
  Instruction i;
  i.line = w.launch->kernel->line_of_number[b.number];
  i.number = b.number;
  note(w, i, __builtin_ctz(lacks), "the condition has no value");
}

}  // namespace ptx
