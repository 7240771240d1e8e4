// What each statement becomes.
#include <algorithm>
#include <cstring>
#include <set>

#include "decoder.h"
#include "select.h"

namespace ptx {
namespace {

// Which operands are written: the first, except by stores and the like.
bool writes_first(const Statement& s) {
  static const std::set<std::string> none = {"st",  "red",     "bra",    "ret",   "exit",
                                             "bar", "barrier", "membar", "fence", "prefetch"};
  return none.count(s.modifiers[0]) == 0;
}

template <class Whole, class Part>
void split(Warp& w, const Instruction& i) {
  const Whole* a = w.at<Whole>(i.a);
  Whole copy[kLanes];
  std::memcpy(copy, a, sizeof(copy));
  for (uint32_t k = 0; k < i.d; ++k) {
    if (i.v[k] == kNowhere) continue;
    Part* d = w.at<Part>(i.v[k]);
    const uint32_t m = w.active;
    PTX_LANES d[l] = m >> l & 1 ? static_cast<Part>(copy[l] >> (8 * sizeof(Part) * k)) : d[l];
  }
}

template <class Whole, class Part>
void join(Warp& w, const Instruction& i) {
  Whole sum[kLanes] = {};
  for (uint32_t k = 0; k < i.d; ++k) {
    const Part* a = w.at<Part>(i.v[k]);
    PTX_LANES sum[l] |= static_cast<Whole>(a[l]) << (8 * sizeof(Part) * k);
  }
  Whole* d = w.at<Whole>(i.a);
  const uint32_t m = w.active;
  PTX_LANES d[l] = m >> l & 1 ? sum[l] : d[l];
}

Space space_of(const Statement& s, size_t* at) {
  static const std::map<std::string, Space> all = {{"global", Space::kGlobal},
                                                   {"shared", Space::kShared},
                                                   {"local", Space::kLocal},
                                                   {"param", Space::kParam}};
  const auto found = *at < s.modifiers.size() ? all.find(s.modifiers[*at]) : all.end();
  if (found == all.end()) return Space::kGeneric;
  ++*at;
  return found->second;
}

}  // namespace

void Decoder::instruction(const Statement& s) {
  Instruction i;
  i.line = s.line;
  if (s.guard >= 0) {
    if (is_sync(s)) fail(s, "a guard is not supported here");
    i.guard = positions_[s.guard];
    i.guard_negated = s.guard_negated;
  }
  const std::string& op = s.modifiers[0];
  if (op == "ld" || op == "st" || op == "ldu") {
    memory(s, &i);
  } else if (op == "atom" || op == "red") {
    atomic(s, &i);
  } else if (op == "cvta") {
    address_space(s, &i);
  } else if (op == "cvt") {
    const int to = bits_of(s, s.words.at(0));
    int from = bits_of(s, s.words.at(1));
    if (s.words[1].kind != Word::kRegister) fail(s, "of an immediate is not supported");
    const Conversion c = find_conversion(s.modifiers, to, from);
    if (c.run == nullptr) fail(s, "unknown instruction");
    i.run = c.run;
    i.d = written(s, s.words[0], to);
    i.a = position(s, s.words[1], from);
    i.v[0] = c.reader;
    i.v[1] = c.writer;
    i.counts_as = Class::kConvert;
  } else if (op == "mov" &&
             (s.words.at(0).kind == Word::kVector || s.words.at(1).kind == Word::kVector)) {
    pack(s);
    return;
  } else if (is_sync(s)) {
    lanes(s, &i);
  } else if (op == "membar" || op == "fence" || op == "prefetch" || op == "prefetchu") {
    i.run = nothing();
  } else {
    arithmetic(s, &i);
  }
  add(s, i);
}

void Decoder::add(const Statement& s, Instruction i) {
  i.number = new_number(s, i.counts_as);
  kernel_->flows.back() = flow(s, i);
  kernel_->code.push_back(i);
}

Flow Decoder::flow(const Statement& s, const Instruction& i) const {
  Flow f;
  const std::string& op = s.modifiers[0];
  for (size_t k = 0; k < s.words.size(); ++k) {
    const bool writes = k == 0 && writes_first(s);
    const Word& w = s.words[k];
    if (w.kind == Word::kVector) {
      for (const Word& part : w.parts)
        (writes ? f.writes : f.reads).push_back(part.kind == Word::kRegister ? part.number : -1);
    } else {
      const bool is_register =
          w.kind == Word::kRegister || (w.kind == Word::kAddress && w.number >= 0);
      (writes ? f.writes : f.reads).push_back(is_register ? w.number : -1);
      if (writes && w.second >= 0) f.writes.push_back(w.second);
    }
  }
  size_t at = 1;
  while (at < s.modifiers.size() && (s.modifiers[at] == "volatile" || s.modifiers[at] == "relaxed"))
    ++at;
  f.space = space_of(s, &at);
  if (op == "selp") f.kind = Flow::kSelect;
  if (s.op == "and.pred") f.kind = Flow::kAnd;
  if (s.op == "or.pred") f.kind = Flow::kOr;
  if (op == "ld") f.kind = Flow::kLoad;
  if (op == "st") f.kind = Flow::kStore;
  if (op == "atom" || op == "red") f.kind = Flow::kAtomic;
  if (op == "shfl") f.kind = Flow::kShuffle;
  if (i.members != kNowhere && op != "shfl") f.kind = Flow::kNeeded;
  return f;
}

void Decoder::arithmetic(const Statement& s, Instruction* i) {
  const Entry* e = find_arithmetic(s.op);
  if (e == nullptr) fail(s, "unknown instruction");
  i->run = e->run;
  i->counts_as = e->counts_as;
  size_t at = 0;
  const auto want = [&](int bits, uint32_t* to) {
    if (bits == 0) return;
    if (at >= s.words.size()) fail(s, "too few operands");
    const Word& w = s.words[at++];
    *to = to == &i->d ? written(s, w, bits) : position(s, w, bits);
    if (w.negated) {
      if (to != &i->c || bits != 1 || s.modifiers[0] != "setp")
        fail(s, "a negated operand is not supported here");
      i->negated = true;
    }
    if (w.second >= 0) {
      if (to != &i->d || s.modifiers[0] != "setp") fail(s, "two results are not supported here");
      i->v[0] = positions_[w.second];
    }
  };
  want(e->d, &i->d);
  want(e->a, &i->a);
  want(e->b, &i->b);
  want(e->c, &i->c);
  if (s.modifiers[0] == "bfi" || s.modifiers[0] == "lop3") want(32, &i->v[0]);
  if (at != s.words.size()) fail(s, "too many operands");
}

void Decoder::pack(const Statement& s) {
  const bool splits = s.words[0].kind == Word::kVector;
  const Word &one = s.words[splits ? 1 : 0], &many = s.words[splits ? 0 : 1];
  const int whole = bits_of(s, one), part = whole / static_cast<int>(many.parts.size());
  if (one.kind != Word::kRegister || whole != std::stoi(s.modifiers[1].substr(1)))
    fail(s, "operands of other sizes");
  Instruction i;
  i.line = s.line;
  if (s.guard >= 0) fail(s, "a guard is not supported here");
  i.a = positions_[one.number];
  for (size_t k = 0; k < many.parts.size(); ++k) {
    i.v[k] = splits ? written(s, many.parts[k], part) : position(s, many.parts[k], part);
  }
  i.d = static_cast<uint32_t>(many.parts.size());
  i.run = splits ? (part == 32    ? &split<uint64_t, uint32_t>
                    : whole == 64 ? &split<uint64_t, uint16_t>
                                  : &split<uint32_t, uint16_t>)
                 : (part == 32    ? &join<uint64_t, uint32_t>
                    : whole == 64 ? &join<uint64_t, uint16_t>
                                  : &join<uint32_t, uint16_t>);
  add(s, i);
}

void Decoder::memory(const Statement& s, Instruction* i) {
  const bool stores = s.modifiers[0] == "st";
  size_t at = 1;
  if (s.modifiers[at] == "volatile" || s.modifiers[at] == "weak") ++at;
  const Space space = space_of(s, &at);
  while (s.modifiers[at] == "nc" || s.modifiers[at] == "ca" || s.modifiers[at] == "cg" ||
         s.modifiers[at] == "cs" || s.modifiers[at] == "lu" || s.modifiers[at] == "wb" ||
         s.modifiers[at] == "wt")
    ++at;
  size_t count = 1;
  if (s.modifiers[at] == "v2")
    count = 2, ++at;
  else if (s.modifiers[at] == "v4")
    count = 4, ++at;
  if (at + 1 != s.modifiers.size()) fail(s, "unknown instruction");
  const std::string& type = s.modifiers[at];
  const Word &value = s.words.at(stores ? 1 : 0), &where = s.words.at(stores ? 0 : 1);
  std::vector<Word> parts = value.kind == Word::kVector ? value.parts : std::vector<Word>{value};
  if (parts.size() != count) fail(s, "another number of registers");
  int bits = 0;
  for (const Word& w : parts)
    bits = std::max(bits, w.kind == Word::kRegister ? f_.registers[w.number].bits : 0);
  const int of_type = std::stoi(type.substr(1));
  if (bits == 0) bits = of_type < 16 ? 16 : of_type;  // immediates only
  i->run = stores ? find_store(space, type, bits) : find_load(space, type, bits);
  if (i->run == nullptr || bits < of_type) fail(s, "unknown instruction");
  for (size_t k = 0; k < count; ++k)
    i->v[k] = stores ? position(s, parts[k], bits) : written(s, parts[k], bits);
  address(s, where, i);
  i->access_bytes = static_cast<uint8_t>(count * static_cast<size_t>(of_type) / 8);
  i->counts_as = space == Space::kShared  ? (stores ? Class::kStoreShared : Class::kLoadShared)
                 : space == Space::kLocal ? Class::kLocal
                 : space == Space::kParam ? Class::kParam
                 : stores                 ? Class::kStoreGlobal
                                          : Class::kLoadGlobal;
}

void Decoder::atomic(const Statement& s, Instruction* i) {
  const bool has_result = s.modifiers[0] == "atom";
  size_t at = 1;
  while (s.modifiers[at] == "relaxed" || s.modifiers[at] == "gpu" || s.modifiers[at] == "sys" ||
         s.modifiers[at] == "cta")
    ++at;
  const Space space = space_of(s, &at);
  while (s.modifiers[at] == "relaxed" || s.modifiers[at] == "gpu" || s.modifiers[at] == "sys" ||
         s.modifiers[at] == "cta")
    ++at;
  if (at + 2 != s.modifiers.size()) fail(s, "unknown instruction");
  i->run = find_atomic(space, s.modifiers[at], s.modifiers[at + 1]);
  if (i->run == nullptr) fail(s, "unknown instruction");
  const int bits = std::stoi(s.modifiers[at + 1].substr(1));
  size_t word = 0;
  if (has_result) i->d = written(s, s.words.at(word++), bits);
  address(s, s.words.at(word++), i);
  i->b = position(s, s.words.at(word++), bits);
  if (word < s.words.size()) i->c = position(s, s.words[word++], bits);
  i->access_bytes = static_cast<uint8_t>(bits / 8);
  i->counts_as = Class::kAtomic;
}

void Decoder::address_space(const Statement& s, Instruction* i) {
  i->d = written(s, s.words.at(0), 64);
  i->a = position(s, s.words.at(1), 64);
  i->counts_as = Class::kMove;
  if (s.op == "cvta.to.global.u64" || s.op == "cvta.global.u64")
    i->run = find_arithmetic("mov.b64")->run;
  if (s.op == "cvta.to.shared.u64") i->run = address_of_shared(true);
  if (s.op == "cvta.shared.u64") i->run = address_of_shared(false);
  if (s.op == "cvta.to.local.u64") i->run = address_of_local(true);
  if (s.op == "cvta.local.u64") i->run = address_of_local(false);
  if (s.op == "cvta.param.u64") i->run = address_of_param();
  if (i->run == nullptr) fail(s, "unknown instruction");
}

void Decoder::lanes(const Statement& s, Instruction* i) {
  const std::vector<std::string>& m = s.modifiers;
  i->counts_as = Class::kWarp;
  if (m[0] == "bar") {
    i->run = nothing();
    i->members = position(s, s.words.at(0), 32);
  } else if (m[0] == "shfl" && m.size() == 4 && m[3] == "b32") {
    i->run = find_shuffle(m[2]);
    i->d = written(s, s.words.at(0), 32);
    if (s.words[0].second >= 0) i->v[0] = positions_[s.words[0].second];
    i->a = position(s, s.words.at(1), 32);
    i->b = position(s, s.words.at(2), 32);
    i->c = position(s, s.words.at(3), 32);
    i->members = position(s, s.words.at(4), 32);
  } else if (m[0] == "vote" && m.size() == 4) {
    i->run = find_vote(m[2]);
    i->d = written(s, s.words.at(0), m[3] == "b32" ? 32 : 1);
    i->a = position(s, s.words.at(1), 1);
    i->negated = s.words[1].negated;
    i->members = position(s, s.words.at(2), 32);
  } else if (m[0] == "redux" && m.size() == 4) {
    i->run = find_redux(m[2], m[3]);
    i->d = written(s, s.words.at(0), 32);
    i->a = position(s, s.words.at(1), 32);
    i->members = position(s, s.words.at(2), 32);
  }
  if (i->run == nullptr) fail(s, "unknown instruction");
}

}  // namespace ptx
