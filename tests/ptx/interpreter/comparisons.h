// setp and selp, of integers and of floating point numbers.
#pragma once

#include "arithmetic.h"

namespace ptx {

template <class T>
void select(Warp& w, const Instruction& i) {
  T* d = w.at<T>(i.d);
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(i.b);
  const u32 p = w.predicate(i.c), m = w.active;
  if (w.full) {
    PTX_LANES d[l] = p >> l & 1 ? a[l] : b[l];
  } else {
    PTX_LANES {
      const T r = p >> l & 1 ? a[l] : b[l];
      d[l] = m >> l & 1 ? r : d[l];
    }
  }
}

// Comparisons.
#define PTX_COMPARISON(name, ...) \
  struct name {                   \
    template <class T>            \
    static bool of(T a, T b) {    \
      return __VA_ARGS__;         \
    }                             \
  };
PTX_COMPARISON(Eq, a == b)
PTX_COMPARISON(Ne, a < b || b < a)  // false for NaN
PTX_COMPARISON(Lt, a < b)
PTX_COMPARISON(Le, a <= b)
PTX_COMPARISON(Gt, a > b)
PTX_COMPARISON(Ge, a >= b)
PTX_COMPARISON(Equ, !(a < b || b < a))
PTX_COMPARISON(Neu, !(a == b))
PTX_COMPARISON(Ltu, !(a >= b))
PTX_COMPARISON(Leu, !(a > b))
PTX_COMPARISON(Gtu, !(a <= b))
PTX_COMPARISON(Geu, !(a < b))
PTX_COMPARISON(Num, a == a && b == b)
PTX_COMPARISON(Nan, a != a || b != b)
#undef PTX_COMPARISON

// d: the predicate, v[0]: another one with the opposite, c and `combine`: with a third.
enum Combine { kAlone, kWithAnd, kWithOr, kWithXor };

template <class Op, class T, Combine combine>
void compare(Warp& w, const Instruction& i) {
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(i.b);
  u32 r = 0;
  PTX_LANES r |= Op::of(a[l], b[l]) ? u32{1} << l : 0;
  u32 other = ~r;
  if constexpr (combine != kAlone) {
    const u32 c = i.negated ? ~w.predicate(i.c) : w.predicate(i.c);
    if constexpr (combine == kWithAnd) r &= c, other &= c;
    if constexpr (combine == kWithOr) r |= c, other |= c;
    if constexpr (combine == kWithXor) r ^= c, other ^= c;
  }
  const u32 m = w.active;
  u32& d = w.predicate(i.d);
  d = (d & ~m) | (r & m);
  if (i.v[0] != kNowhere) {
    u32& e = w.predicate(i.v[0]);
    e = (e & ~m) | (other & m);
  }
}

template <class Op, class T>
void add_comparison(Table* t, const std::string& name, const std::string& type) {
  const int n = width<T>();
  const Class k = Class::kPredicate;
  (*t)["setp." + name + "." + type] = {compare<Op, T, kAlone>, 1, n, n, 0, k};
  (*t)["setp." + name + ".and." + type] = {compare<Op, T, kWithAnd>, 1, n, n, 1, k};
  (*t)["setp." + name + ".or." + type] = {compare<Op, T, kWithOr>, 1, n, n, 1, k};
  (*t)["setp." + name + ".xor." + type] = {compare<Op, T, kWithXor>, 1, n, n, 1, k};
}

template <class T>
void add_comparisons(Table* t, const std::string& type) {
  add_comparison<Eq, T>(t, "eq", type);
  add_comparison<Ne, T>(t, "ne", type);
  if (type[0] == 'b') return;
  add_comparison<Lt, T>(t, "lt", type);
  add_comparison<Le, T>(t, "le", type);
  add_comparison<Gt, T>(t, "gt", type);
  add_comparison<Ge, T>(t, "ge", type);
  if constexpr (std::is_floating_point_v<T>) {
    add_comparison<Equ, T>(t, "equ", type);
    add_comparison<Neu, T>(t, "neu", type);
    add_comparison<Ltu, T>(t, "ltu", type);
    add_comparison<Leu, T>(t, "leu", type);
    add_comparison<Gtu, T>(t, "gtu", type);
    add_comparison<Geu, T>(t, "geu", type);
    add_comparison<Num, T>(t, "num", type);
    add_comparison<Nan, T>(t, "nan", type);
  } else if (std::is_unsigned_v<T>) {
    add_comparison<Lt, T>(t, "lo", type);
    add_comparison<Le, T>(t, "ls", type);
    add_comparison<Gt, T>(t, "hi", type);
    add_comparison<Ge, T>(t, "hs", type);
  }
}

}  // namespace ptx
