// Instructions of integers and of bits.
#include "comparisons.h"

namespace ptx {
namespace {

// Integers: sums and products wrap around.
PTX_BINARY(Add, a + b)
PTX_BINARY(Sub, a - b)
struct Mul {
  static u16 of(u16 a, u16 b) { return static_cast<u16>(u32{a} * b); }
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
template <class Wide>
struct MulHigh {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (8 * sizeof(T)));
  }
};
template <class Wide>
struct MulWide {
  template <class T>
  static Wide of(T a, T b) {
    return static_cast<Wide>(a) * static_cast<Wide>(b);
  }
};
struct Mad {
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(Mul::of(a, b) + c);
  }
};
template <class Wide>
struct MadWide {
  template <class T>
  static Wide of(T a, T b, Wide c) {
    using U = std::make_unsigned_t<Wide>;
    return static_cast<Wide>(static_cast<U>(static_cast<Wide>(a) * static_cast<Wide>(b)) +
                             static_cast<U>(c));
  }
};
PTX_UNARY(Negative, T{0} - a)
struct Magnitude {
  template <class T>
  static T of(T a) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(a < 0 ? U{0} - static_cast<U>(a) : static_cast<U>(a));
  }
};
PTX_BINARY(Min, b < a ? b : a)
PTX_BINARY(Max, b > a ? b : a)
PTX_BINARY(And, a& b)
PTX_BINARY(Or, a | b)
PTX_BINARY(Xor, a ^ b)
PTX_UNARY(Not, ~a)
// A shift by more than the width is one by the width.
struct ShiftLeft {
  template <class T>
  static T of(T a, u32 n) {
    return n < 8 * sizeof(T) ? static_cast<T>(a << (n % (8 * sizeof(T)))) : T{0};
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, u32 n) {
    constexpr u32 kMost = 8 * sizeof(T) - 1;
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (n < kMost ? n : kMost));
    return n <= kMost ? static_cast<T>(a >> (n & kMost)) : T{0};
  }
};
struct Popc {
  template <class T>
  static u32 of(T a) {
    return static_cast<u32>(__builtin_popcountll(a));
  }
};
struct Clz {
  static u32 of(u32 a) { return a == 0 ? 32 : static_cast<u32>(__builtin_clz(a)); }
  static u32 of(u64 a) { return a == 0 ? 64 : static_cast<u32>(__builtin_clzll(a)); }
};
struct Brev {
  template <class T>
  static T of(T a) {
    T r = 0;
    for (size_t bit = 0; bit < 8 * sizeof(T); ++bit)
      r |= (a >> bit & 1) << (8 * sizeof(T) - 1 - bit);
    return r;
  }
};
// The place of the highest one, or how far it must be shifted to the top; -1 for none.
template <bool shift>
struct Bfind {
  static u32 of(u32 a) {
    if (a == 0) return ~u32{0};
    const u32 zeros = static_cast<u32>(__builtin_clz(a));
    return shift ? zeros : 31 - zeros;
  }
  static u32 of(u64 a) {
    if (a == 0) return ~u32{0};
    const u32 zeros = static_cast<u32>(__builtin_clzll(a));
    return shift ? zeros : 63 - zeros;
  }
};
struct Bfi {
  template <class T>
  static T of(T a, T b, u32 position, u32 length) {
    constexpr u32 kBits = 8 * sizeof(T);
    position &= 0xff, length &= 0xff;
    T r = b;
    for (u32 bit = 0; bit < length && position + bit < kBits; ++bit) {
      const T one = T{1} << (position + bit);
      r = a >> bit & 1 ? r | one : r & ~one;
    }
    return r;
  }
};
struct Bfe {
  template <class T>
  static T of(T a, u32 position, u32 length) {
    constexpr u32 kBits = 8 * sizeof(T);
    position &= 0xff, length &= 0xff;
    using U = std::make_unsigned_t<T>;
    const U from = static_cast<U>(a);
    u32 top = position + length - 1;
    if (top > kBits - 1) top = kBits - 1;
    const bool sign = std::is_signed_v<T> && length != 0 && (from >> top & 1);
    U r = 0;
    for (u32 bit = 0; bit < kBits; ++bit) {
      const bool one = bit < length && position + bit < kBits ? from >> (position + bit) & 1 : sign;
      r |= static_cast<U>(one) << bit;
    }
    return static_cast<T>(r);
  }
};
struct Lop3 {
  static u32 of(u32 a, u32 b, u32 c, u32 table) {
    u32 r = 0;
    for (u32 i = 0; i < 8; ++i) {
      if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    return r;
  }
};
struct Prmt {
  static u32 of(u32 a, u32 b, u32 selector) {
    const u64 bytes = static_cast<u64>(b) << 32 | a;
    u32 r = 0;
    for (int i = 0; i < 4; ++i) {
      const u32 digit = selector >> (4 * i) & 15;
      u32 byte = static_cast<u32>(bytes >> (8 * (digit & 7))) & 0xff;
      if (digit & 8) byte = byte & 0x80 ? 0xff : 0;
      r |= byte << (8 * i);
    }
    return r;
  }
};
template <bool left, bool wrap>
struct Funnel {
  static u32 of(u32 low, u32 high, u32 shift) {
    const u32 n = wrap ? shift & 31 : (shift < 32 ? shift : 32);
    const u64 both = static_cast<u64>(high) << 32 | low;
    return static_cast<u32>(left ? both << n >> 32 : both >> n);
  }
};
template <bool high>
struct Dp2a {  // of signed halves and bytes
  static u32 of(u32 a, u32 b, u32 c) {
    const u32 from = high ? b >> 16 : b;
    s64 sum = static_cast<s64>(c);
    for (int i = 0; i < 2; ++i) {
      sum += s64{static_cast<int16_t>(a >> (16 * i))} * static_cast<int8_t>(from >> (8 * i));
    }
    return static_cast<u32>(sum);
  }
};

template <class T, bool remainder>
void divide(Warp& w, const Instruction& i) {
  T* d = w.at<T>(i.d);
  const T* a = w.at<T>(i.a);
  const T* b = w.at<T>(i.b);
  for (int l = 0; l < kLanes; ++l) {
    if (!(w.active >> l & 1)) continue;
    if (b[l] == 0) {
      note(w, i, l, "an integer is divided by 0");
      d[l] = static_cast<T>(remainder ? a[l] : static_cast<T>(~T{0}));
    } else if (std::is_signed_v<T> && static_cast<T>(~b[l]) == 0) {  // by -1
      using U = std::make_unsigned_t<T>;
      d[l] = remainder ? T{0} : static_cast<T>(U{0} - static_cast<U>(a[l]));
    } else {
      d[l] = static_cast<T>(remainder ? a[l] % b[l] : a[l] / b[l]);
    }
  }
}

// What signed and unsigned integers of a width have in common, and what not.
template <class U>
void add_type(Table* t) {
  using S = std::make_signed_t<U>;
  const std::string n = std::to_string(width<U>());
  for (const std::string& type : {"s" + n, "u" + n, "b" + n}) {
    add_binary<Add, U>(t, "add." + type);
    add_binary<Sub, U>(t, "sub." + type);
    add_binary<Mul, U>(t, "mul.lo." + type);
    add_ternary<Mad, U>(t, "mad.lo." + type);
    add_unary<Negative, U>(t, "neg." + type);
    (*t)["shl." + type] = {each<ShiftLeft, U, U, u32>, width<U>(), width<U>(), 32, 0,
                           integer_class<U>()};
    (*t)["selp." + type] = {select<U>, width<U>(), width<U>(), width<U>(), 1, Class::kPredicate};
  }
  for (const std::string& type : {"u" + n, "b" + n}) {
    (*t)["shr." + type] = {each<ShiftRight, U, U, u32>, width<U>(), width<U>(), 32, 0,
                           integer_class<U>()};
  }
  (*t)["shr.s" + n] = {each<ShiftRight, S, S, u32>, width<U>(), width<U>(), 32, 0,
                       integer_class<U>()};
  add_unary<Magnitude, S>(t, "abs.s" + n);
  add_binary<Min, U>(t, "min.u" + n);
  add_binary<Max, U>(t, "max.u" + n);
  add_binary<Min, S>(t, "min.s" + n);
  add_binary<Max, S>(t, "max.s" + n);
  add_binary<And, U>(t, "and.b" + n);
  add_binary<Or, U>(t, "or.b" + n);
  add_binary<Xor, U>(t, "xor.b" + n);
  add_unary<Not, U>(t, "not.b" + n);
  const int w = width<U>();
  (*t)["div.u" + n] = {divide<U, false>, w, w, w, 0, integer_class<U>()};
  (*t)["div.s" + n] = {divide<S, false>, w, w, w, 0, integer_class<U>()};
  (*t)["rem.u" + n] = {divide<U, true>, w, w, w, 0, integer_class<U>()};
  (*t)["rem.s" + n] = {divide<S, true>, w, w, w, 0, integer_class<U>()};
  add_comparisons<U>(t, "u" + n);
  add_comparisons<S>(t, "s" + n);
  add_comparisons<U>(t, "b" + n);
}

template <class U, class Wide>
void add_wide(Table* t) {
  using S = std::make_signed_t<U>;
  using WideS =
      std::conditional_t<sizeof(U) == 8, __int128, std::conditional_t<sizeof(U) == 4, s64, s32>>;
  const std::string n = std::to_string(width<U>());
  const int w = width<U>();
  (*t)["mul.hi.u" + n] = {each<MulHigh<Wide>, U, U, U>, w, w, w, 0, integer_class<U>()};
  (*t)["mul.hi.s" + n] = {each<MulHigh<WideS>, S, S, S>, w, w, w, 0, integer_class<U>()};
  if constexpr (sizeof(U) < 8) {
    (*t)["mul.wide.u" + n] = {
        each<MulWide<Wide>, Wide, U, U>, 2 * w, w, w, 0, integer_class<Wide>()};
    (*t)["mul.wide.s" + n] = {
        each<MulWide<WideS>, WideS, S, S>, 2 * w, w, w, 0, integer_class<Wide>()};
    (*t)["mad.wide.u" + n] = {
        each<MadWide<Wide>, Wide, U, U, Wide>, 2 * w, w, w, 2 * w, integer_class<Wide>()};
    (*t)["mad.wide.s" + n] = {
        each<MadWide<WideS>, WideS, S, S, WideS>, 2 * w, w, w, 2 * w, integer_class<Wide>()};
  }
}

}  // namespace

void add_integers(Table* t) {
  add_type<u16>(t);
  add_type<u32>(t);
  add_type<u64>(t);
  add_wide<u16, u32>(t);
  add_wide<u32, u64>(t);
  add_wide<u64, unsigned __int128>(t);
  const Class i = Class::kInt32;
  const auto one = [&](const std::string& name, Run run, int d, int a) {
    (*t)[name] = {run, d, a, 0, 0, i};
  };
  const auto three = [&](const std::string& name, Run run, int bits = 32) {
    (*t)[name] = {run, bits, bits, 32, 32, bits == 64 ? Class::kInt64 : i};
  };
  one("popc.b32", each<Popc, u32, u32>, 32, 32);
  one("popc.b64", each<Popc, u32, u64>, 32, 64);
  one("clz.b32", each<Clz, u32, u32>, 32, 32);
  one("clz.b64", each<Clz, u32, u64>, 32, 64);
  one("brev.b32", each<Brev, u32, u32>, 32, 32);
  one("brev.b64", each<Brev, u64, u64>, 64, 64);
  one("bfind.u32", each<Bfind<false>, u32, u32>, 32, 32);
  one("bfind.u64", each<Bfind<false>, u32, u64>, 32, 64);
  one("bfind.shiftamt.u32", each<Bfind<true>, u32, u32>, 32, 32);
  one("bfind.shiftamt.u64", each<Bfind<true>, u32, u64>, 32, 64);
  three("bfe.u32", each<Bfe, u32, u32, u32, u32>);
  three("bfe.s32", each<Bfe, s32, s32, u32, u32>);
  three("bfe.u64", each<Bfe, u64, u64, u32, u32>, 64);
  three("bfe.s64", each<Bfe, s64, s64, u32, u32>, 64);
  three("lop3.b32", each<Lop3, u32, u32, u32, u32, u32>);  // and 32 bits
  three("bfi.b32", each<Bfi, u32, u32, u32, u32, u32>);    // likewise
  (*t)["bfi.b64"] = {each<Bfi, u64, u64, u64, u32, u32>, 64, 64, 64, 32, Class::kInt64};
  three("prmt.b32", each<Prmt, u32, u32, u32, u32>);
  three("shf.l.wrap.b32", each<Funnel<true, true>, u32, u32, u32, u32>);
  three("shf.r.wrap.b32", each<Funnel<false, true>, u32, u32, u32, u32>);
  three("shf.l.clamp.b32", each<Funnel<true, false>, u32, u32, u32, u32>);
  three("shf.r.clamp.b32", each<Funnel<false, false>, u32, u32, u32, u32>);
  three("dp2a.lo.s32.s32", each<Dp2a<false>, u32, u32, u32, u32>);
  three("dp2a.hi.s32.s32", each<Dp2a<true>, u32, u32, u32, u32>);
}

}  // namespace ptx
