// Instructions of floating point numbers.
#include <cfenv>
#include <cmath>

#include "comparisons.h"

namespace ptx {
namespace {

// Floating point, rounded to nearest. The hardware's minimum and maximum drop a NaN.
PTX_BINARY(FAdd, canonical(a + b))
PTX_BINARY(FSub, canonical(a - b))
PTX_BINARY(FMul, canonical(a* b))
PTX_BINARY(FDiv, canonical(a / b))
PTX_UNARY(FRcp, canonical(T{1} / a))
PTX_UNARY(FSqrt, canonical(std::sqrt(a)))
struct FFma {
  template <class T>
  static T of(T a, T b, T c) {
    return canonical(std::fma(a, b, c));
  }
};
struct FMin {
  template <class T>
  static T of(T a, T b) {
    if (a != a) return canonical(b);
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct FMax {
  template <class T>
  static T of(T a, T b) {
    if (a != a) return canonical(b);
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  }
};
// Signs are bits.
struct FNeg {
  static u32 of(u32 a) { return a ^ 0x80000000u; }
  static u64 of(u64 a) { return a ^ (u64{1} << 63); }
};
struct FAbs {
  static u32 of(u32 a) { return a & 0x7fffffffu; }
  static u64 of(u64 a) { return a & ~(u64{1} << 63); }
};
struct CopySign {  // the sign of a
  static u32 of(u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }
  static u64 of(u64 a, u64 b) { return (a & u64{1} << 63) | (b & ~(u64{1} << 63)); }
};

// Rounded towards 0, as libdevice's round() adds its half.
template <class T>
__attribute__((noinline)) void add_towards_zero(Warp& w, const Instruction& i) {
  T* d = w.at<T>(i.d);
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(i.b);
  const int before = std::fegetround();
  std::fesetround(FE_TOWARDZERO);
  asm volatile("" ::: "memory");
  for (int l = 0; l < kLanes; ++l) {
    if (w.active >> l & 1) d[l] = canonical(a[l] + b[l]);
  }
  asm volatile("" ::: "memory");
  std::fesetround(before);
}

template <class T, class U>
void add_type(Table* t) {
  const std::string type = "f" + std::to_string(width<T>());
  const Class k = sizeof(T) == 8 ? Class::kFp64 : Class::kFp32;
  for (const std::string& rn : {std::string("."), std::string(".rn.")}) {
    add_binary<FAdd, T>(t, "add" + rn + type, k);
    add_binary<FSub, T>(t, "sub" + rn + type, k);
    add_binary<FMul, T>(t, "mul" + rn + type, k);
  }
  (*t)["add.rz." + type] = {add_towards_zero<T>, width<T>(), width<T>(), width<T>(), 0, k};
  add_binary<FDiv, T>(t, "div.rn." + type, k);
  add_ternary<FFma, T>(t, "fma.rn." + type, k);
  add_unary<FRcp, T>(t, "rcp.rn." + type, k);
  add_unary<FSqrt, T>(t, "sqrt.rn." + type, k);
  add_binary<FMin, T>(t, "min." + type, k);
  add_binary<FMax, T>(t, "max." + type, k);
  add_unary<FNeg, U>(t, "neg." + type, k);
  add_unary<FAbs, U>(t, "abs." + type, k);
  add_binary<CopySign, U>(t, "copysign." + type, k);
  (*t)["selp." + type] = {select<U>, width<T>(), width<T>(), width<T>(), 1, Class::kPredicate};
  add_comparisons<T>(t, type);
}

}  // namespace

void add_floats(Table* t) {
  add_type<float, u32>(t);
  add_type<double, u64>(t);
}

}  // namespace ptx
