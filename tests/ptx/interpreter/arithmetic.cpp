// The instructions that compute in registers: those of predicates, moves, and all others' table.
#include "arithmetic.h"

#include <cstdlib>

namespace ptx {
namespace {

PTX_UNARY(Same, a)
PTX_BINARY(And, a& b)
PTX_BINARY(Or, a | b)
PTX_BINARY(Xor, a ^ b)
PTX_UNARY(Not, ~a)

template <class Op>
void predicates2(Warp& w, const Instruction& i) {
  const u32 m = w.active, r = Op::of(w.predicate(i.a), w.predicate(i.b));
  u32& d = w.predicate(i.d);
  d = (d & ~m) | (r & m);
}
template <class Op>
void predicates1(Warp& w, const Instruction& i) {
  const u32 m = w.active, r = Op::of(w.predicate(i.a));
  u32& d = w.predicate(i.d);
  d = (d & ~m) | (r & m);
}

Table make_table() {
  Table t;
  add_integers(&t);
  add_floats(&t);
  for (const char* type : {"b16", "u16", "s16"})
    add_unary<Same, u16>(&t, std::string("mov.") + type, Class::kMove);
  for (const char* type : {"b32", "u32", "s32", "f32"})
    add_unary<Same, u32>(&t, std::string("mov.") + type, Class::kMove);
  for (const char* type : {"b64", "u64", "s64", "f64"})
    add_unary<Same, u64>(&t, std::string("mov.") + type, Class::kMove);
  const Class p = Class::kPredicate;
  t["and.pred"] = {predicates2<And>, 1, 1, 1, 0, p};
  t["or.pred"] = {predicates2<Or>, 1, 1, 1, 0, p};
  t["xor.pred"] = {predicates2<Xor>, 1, 1, 1, 0, p};
  t["not.pred"] = {predicates1<Not>, 1, 1, 0, 0, p};
  t["mov.pred"] = {predicates1<Same>, 1, 1, 0, 0, p};
  return t;
}

}  // namespace

const NanBits nan_bits = [] {
  const char* text = std::getenv("VISOPS_PTX_NAN");
  return text != nullptr && std::string(text) == "host" ? NanBits{~0u, 0} : NanBits{0, 0x7fffffffu};
}();

const Entry* find_arithmetic(const std::string& op) {
  static const Table table = make_table();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace ptx
