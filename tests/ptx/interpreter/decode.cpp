// From statements to instructions in basic blocks: registers, variables and operands.
#include <cstring>
#include <functional>
#include <set>

#include "decoder.h"

namespace ptx {

const char* const kClassNames[] = {
    "fp32",      "fp64",        "int32",        "int64",       "convert",      "move",
    "predicate", "load global", "store global", "load shared", "store shared", "local",
    "param",     "atomic",      "warp",         "barrier",     "branch"};

namespace {

size_t bytes_of(int bits) { return bits == 1 ? 4 : static_cast<size_t>(bits) / 8 * kLanes; }

}  // namespace

std::unique_ptr<Kernel> Decoder::kernel() {
  kernel_->name = f_.name;
  kernel_->file = f_.file;
  position_registers();
  position_variables();
  const std::vector<Raw> blocks = find_blocks(f_);
  const std::vector<size_t> order = order_of(blocks);
  std::vector<uint32_t> number(blocks.size(), UINT32_MAX);
  for (size_t n = 0; n < order.size(); ++n) number[order[n]] = static_cast<uint32_t>(n);
  for (const size_t n : order) emit(blocks[n], number);
  kernel_->counts.resize(kernel_->line_of_number.size());
  f_.statements.clear();
  kernel_->function = std::move(f_);
  return std::move(kernel_);
}

void Decoder::fail(const Statement& s, const std::string& what) const { ptx::fail(f_, s, what); }

void Decoder::position_registers() {
  size_t at = 0;
  const auto position = [&](int bits) {
    const size_t here = at;
    at += (bytes_of(bits) + 63) / 64 * 64;
    return static_cast<uint32_t>(here);
  };
  for (int s = 0; s < kSpecials; ++s) kernel_->special[s] = position(32);
  // Predicates are words: they lie close.
  size_t predicates = at;
  for (const Register& r : f_.registers) at += r.bits == 1 ? 4 : 0;
  at = (at + 63) / 64 * 64;
  for (const Register& r : f_.registers) {
    if (r.bits == 1) {
      positions_.push_back(static_cast<uint32_t>(predicates));
      predicates += 4;
    } else {
      positions_.push_back(position(r.bits));
    }
  }
  kernel_->register_bytes = at;
}

void Decoder::position_variables() {
  std::set<std::string> used;
  const std::function<void(const Word&)> look = [&](const Word& w) {
    if (!w.name.empty()) used.insert(w.name);
    for (const Word& part : w.parts) look(part);
  };
  for (const Statement& s : f_.statements) {
    for (const Word& w : s.words) look(w);
  }
  const auto position = [&](const Variable& v, size_t* at) {
    *at = (*at + v.align - 1) / v.align * v.align;
    symbols_[v.name] = *at;
    *at += v.bytes;
  };
  for (const Variable& v : f_.shared) {
    if (!v.is_dynamic && used.count(v.name) != 0) position(v, &kernel_->shared_bytes);
  }
  kernel_->dynamic_at = (kernel_->shared_bytes + 15) / 16 * 16;
  for (const Variable& v : f_.shared) {
    if (v.is_dynamic) symbols_[v.name] = kernel_->dynamic_at;
  }
  for (const Variable& v : f_.local) position(v, &kernel_->local_bytes);
  kernel_->local_bytes = (kernel_->local_bytes + 15) / 16 * 16;
  for (const Parameter& p : f_.parameters) symbols_[p.name] = p.offset;
}

uint32_t Decoder::constant(uint64_t value, int bits) {
  const auto key = std::make_pair(value, bits);
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  std::vector<unsigned char>& all = kernel_->constants;
  const size_t at = all.size();
  all.resize(at + (bytes_of(bits) + 63) / 64 * 64);
  const size_t bytes = bits == 1 ? 4 : static_cast<size_t>(bits) / 8;
  if (bits == 1) value = value ? 0xffffffffu : 0;
  for (size_t l = 0; l < (bits == 1 ? 1 : kLanes); ++l)
    std::memcpy(&all[at + l * bytes], &value, bytes);
  const uint32_t position = kConstant | static_cast<uint32_t>(at);
  constants_[key] = position;
  return position;
}

int Decoder::special_of(const std::string& name) const {
  static const std::map<std::string, int> all = {
      {"%tid.x", kTidX},    {"%tid.y", kTidY},     {"%tid.z", kTidZ},     {"%ctaid.x", kCtaX},
      {"%ctaid.y", kCtaY},  {"%ctaid.z", kCtaZ},   {"%ntid.x", kNtidX},   {"%ntid.y", kNtidY},
      {"%ntid.z", kNtidZ},  {"%nctaid.x", kNctaX}, {"%nctaid.y", kNctaY}, {"%nctaid.z", kNctaZ},
      {"%laneid", kLaneId}, {"%warpid", kWarpId}};
  const auto found = all.find(name);
  return found == all.end() ? -1 : found->second;
}

uint32_t Decoder::position(const Statement& s, const Word& w, int bits) {
  switch (w.kind) {
    case Word::kRegister:
      if (f_.registers[w.number].bits != bits)
        fail(s, w.name + " does not have " + std::to_string(bits) + " bits");
      return positions_[w.number];
    case Word::kSpecial: {
      const int special = special_of(w.name);
      if (special < 0 || bits != 32) fail(s, "unknown register " + w.name);
      return kernel_->special[special];
    }
    case Word::kInteger:
      return constant(bits == 64 || bits == 1 ? w.bits : w.bits & ((uint64_t{1} << bits) - 1),
                      bits);
    case Word::kFloat:
      if (bits != 32) fail(s, "a float32 for another type");
      return constant(w.bits, 32);
    case Word::kDouble:
      if (bits != 64) fail(s, "a float64 for another type");
      return constant(w.bits, 64);
    case Word::kSymbol: {
      const auto found = symbols_.find(w.name);
      if (found == symbols_.end()) fail(s, "unknown symbol " + w.name);
      return constant(found->second + static_cast<uint64_t>(w.offset), bits);
    }
    default: fail(s, "an operand of an unknown kind");
  }
}

int Decoder::bits_of(const Statement& s, const Word& w) const {
  if (w.kind == Word::kRegister) return f_.registers[w.number].bits;
  if (w.kind == Word::kVector) return bits_of(s, w.parts.at(0));
  if (w.kind == Word::kSpecial) return 32;
  if (w.kind == Word::kSink) return 0;
  return 64;
}

uint32_t Decoder::written(const Statement& s, const Word& w, int bits) {
  if (w.kind == Word::kSink) return kNowhere;
  if (w.kind != Word::kRegister) fail(s, "a result that is no register");
  return position(s, w, bits);
}

void Decoder::address(const Statement& s, const Word& w, Instruction* i) {
  if (w.kind != Word::kAddress) fail(s, "expected an address");
  i->offset = w.offset;
  if (!w.has_base) {
    i->a = constant(0, 64);
    i->wide = 1;
  } else if (w.base_is_symbol) {
    const auto found = symbols_.find(w.name);
    if (found == symbols_.end()) fail(s, "unknown symbol " + w.name);
    i->a = constant(found->second, 64);
    i->wide = 1;
  } else {
    const int bits = f_.registers[w.number].bits;
    if (bits != 32 && bits != 64) fail(s, "an address of " + std::to_string(bits) + " bits");
    i->a = positions_[w.number];
    i->wide = bits == 64;
  }
}

uint32_t Decoder::new_number(const Statement& s, Class k) {
  kernel_->line_of_number.push_back(s.line);
  kernel_->class_of_number.push_back(k);
  kernel_->operations.push_back(s.op);
  kernel_->flows.emplace_back();
  return static_cast<uint32_t>(kernel_->line_of_number.size() - 1);
}

void Decoder::emit(const Raw& raw, const std::vector<uint32_t>& number) {
  Basic b;
  b.begin = static_cast<uint32_t>(kernel_->code.size());
  b.sync = raw.is_sync;
  b.line = f_.statements[raw.begin].line;
  const Statement& last = f_.statements[raw.end - 1];
  size_t end = raw.end;
  if (ends(last) || is_barrier(last)) {
    --end;
    b.number = new_number(last, is_barrier(last) ? Class::kBarrier : Class::kBranch);
    if (last.guard >= 0) {
      b.guard = positions_[last.guard];
      b.guard_negated = last.guard_negated;
      b.guard_register = last.guard;
    }
  }
  if (!raw.next.empty()) b.next = number[raw.next.front()];
  if (last.modifiers[0] == "bra") {
    b.taken = number[raw.next.back()];
    b.kind = Basic::kBranch;
  } else if (ends(last)) {
    b.kind = Basic::kEnd;
  } else if (is_barrier(last)) {
    if (last.guard >= 0) fail(last, "a barrier with a guard is not supported");
    const bool is_plain = (last.op == "bar.sync" || last.op == "barrier.sync") &&
                          last.words.size() == 1 && last.words[0].kind == Word::kInteger;
    if (!is_plain) fail(last, "only bar.sync N of all threads is supported");
    b.kind = Basic::kBarrier;
  }
  for (size_t n = raw.begin; n < end; ++n) instruction(f_.statements[n]);
  b.end = static_cast<uint32_t>(kernel_->code.size());
  kernel_->blocks.push_back(b);
}

std::unique_ptr<Kernel> decode(Function&& function) {
  return Decoder(std::move(function)).kernel();
}

}  // namespace ptx
