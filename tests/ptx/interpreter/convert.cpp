// cvt: between integers, floating point numbers, and both.
#include <cmath>
#include <cstring>
#include <limits>

#include "arithmetic.h"

namespace ptx {
namespace {

// Integers go through 64 bits: a reader extends the lower bits of a register, and a writer cuts
// them and extends them to the width of its register.
template <class Type, class Register>
void read_lanes(const void* from, int64_t* to) {
  const Register* r = static_cast<const Register*>(from);
  PTX_LANES to[l] = static_cast<int64_t>(static_cast<Type>(r[l]));
}
template <class Type, class Register>
void write_lanes(const int64_t* from, void* to, uint32_t mask) {
  Register* r = static_cast<Register*>(to);
  PTX_LANES {
    const Register n = static_cast<Register>(static_cast<Type>(from[l]));
    r[l] = mask >> l & 1 ? n : r[l];
  }
}
using Reader = void (*)(const void*, int64_t*);
using Writer = void (*)(const int64_t*, void*, uint32_t);

const char* const kTypes[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
#define PTX_OF_REGISTERS(what, type) \
  {what<type, uint16_t>, what<type, uint32_t>, what<type, uint64_t>}
#define PTX_OF_TYPES(what)                                            \
  {PTX_OF_REGISTERS(what, uint8_t),  PTX_OF_REGISTERS(what, int8_t),  \
   PTX_OF_REGISTERS(what, uint16_t), PTX_OF_REGISTERS(what, int16_t), \
   PTX_OF_REGISTERS(what, uint32_t), PTX_OF_REGISTERS(what, int32_t), \
   PTX_OF_REGISTERS(what, uint64_t), PTX_OF_REGISTERS(what, int64_t)}
constexpr Reader kReaders[8][3] = PTX_OF_TYPES(read_lanes);
constexpr Writer kWriters[8][3] = PTX_OF_TYPES(write_lanes);

uint32_t index_of(const std::string& type, int register_bits) {
  for (uint32_t i = 0; i < 8; ++i) {
    if (type == kTypes[i]) return 3 * i + (register_bits == 16 ? 0 : register_bits == 32 ? 1 : 2);
  }
  throw Error("cvt: unknown type " + type);
}
Reader reader(const Instruction& i) { return kReaders[i.v[0] / 3][i.v[0] % 3]; }
Writer writer(const Instruction& i) { return kWriters[i.v[1] / 3][i.v[1] % 3]; }

void integers(Warp& w, const Instruction& i) {
  int64_t values[kLanes];
  reader(i)(w.at<char>(i.a), values);
  writer(i)(values, w.at<char>(i.d), w.active);
}

// The frequent ones, at once.
template <class D, class A>
void plain(Warp& w, const Instruction& i) {
  D* d = w.at<D>(i.d);
  const A* a = w.at<A>(i.a);
  const uint32_t m = w.active;
  if (w.full) {
    PTX_LANES d[l] = static_cast<D>(a[l]);
  } else {
    PTX_LANES d[l] = m >> l & 1 ? static_cast<D>(a[l]) : d[l];
  }
}

template <class F, class I>
void to_float(Warp& w, const Instruction& i) {
  int64_t values[kLanes];
  reader(i)(w.at<char>(i.a), values);
  F* d = w.at<F>(i.d);
  const uint32_t m = w.active;
  PTX_LANES {
    const F r = static_cast<F>(static_cast<I>(values[l]));
    d[l] = m >> l & 1 ? r : d[l];
  }
}

enum Rounding { kNearest, kZero, kDown, kUp };
template <Rounding rounding, class F>
F integral(F value) {
  if constexpr (rounding == kNearest) return std::nearbyint(value);
  if constexpr (rounding == kZero) return std::trunc(value);
  if constexpr (rounding == kDown) return std::floor(value);
  return std::ceil(value);
}

// What is beyond the type becomes its nearest number. NaN becomes 0; from or to 64 bits it is the
// number with the highest bit alone.
template <Rounding rounding, class F, class I>
void from_float(Warp& w, const Instruction& i) {
  const F* a = w.at<F>(i.a);
  int64_t values[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const F r = integral<rounding>(a[l]);
    using Most = std::numeric_limits<I>;
    I n;
    if (r != r) {
      const bool is_long = sizeof(F) == 8 || sizeof(I) == 8;
      n = is_long ? static_cast<I>(std::make_unsigned_t<I>{1} << (8 * sizeof(I) - 1)) : I{0};
    } else if (r <= static_cast<F>(Most::min())) {
      n = Most::min();
    } else if (r >= static_cast<F>(Most::max())) {  // rounded up where F has no such number
      n = Most::max();
    } else {
      n = static_cast<I>(r);
    }
    values[l] = static_cast<int64_t>(n);
  }
  writer(i)(values, w.at<char>(i.d), w.active);
}

template <Rounding rounding, class F>
void to_integral(Warp& w, const Instruction& i) {
  F* d = w.at<F>(i.d);
  const F* a = w.at<F>(i.a);
  const uint32_t m = w.active;
  PTX_LANES {
    const F r = canonical(integral<rounding>(a[l]));
    d[l] = m >> l & 1 ? r : d[l];
  }
}

template <class To, class From>
void between_floats(Warp& w, const Instruction& i) {
  To* d = w.at<To>(i.d);
  const From* a = w.at<From>(i.a);
  const uint32_t m = w.active;
  PTX_LANES {
    const To r = canonical(static_cast<To>(a[l]));
    d[l] = m >> l & 1 ? r : d[l];
  }
}

float half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value;
  if (exponent == 31) {
    value =
        mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    if (mantissa) return canonical(value);
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}
void from_half(Warp& w, const Instruction& i) {
  static const float* const values = half_values();
  float* d = w.at<float>(i.d);
  const uint16_t* a = w.at<uint16_t>(i.a);
  for (int l = 0; l < kLanes; ++l) {
    if (w.active >> l & 1) d[l] = values[a[l]];
  }
}

// To the nearest half, to even from the middle.
void to_half(Warp& w, const Instruction& i) {
  uint16_t* d = w.at<uint16_t>(i.d);
  const float* a = w.at<float>(i.a);
  for (int l = 0; l < kLanes; ++l) {
    if (!(w.active >> l & 1)) continue;
    const uint16_t sign = std::signbit(a[l]) ? 0x8000 : 0;
    const float size = std::fabs(a[l]);
    if (size != size) {
      d[l] = 0x7fff;
    } else if (size >= 65520.0f) {
      d[l] = sign | 0x7c00;
    } else if (size < 6.103515625e-05f) {  // subnormal: units of 2^-24
      d[l] = sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(size, 24)));
    } else {
      int exponent;
      const float fraction = std::frexp(size, &exponent);  // in [0.5, 1)
      const uint32_t mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
      d[l] = static_cast<uint16_t>(sign + ((exponent + 14) << 10) + (mantissa - 1024));
    }
  }
}

// To the nearest bfloat16, to even from the middle.
void to_bfloat16(Warp& w, const Instruction& i) {
  uint16_t* d = w.at<uint16_t>(i.d);
  const uint32_t* a = w.at<uint32_t>(i.a);
  const uint32_t m = w.active;
  PTX_LANES {
    const bool is_nan = (a[l] & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = (a[l] + 0x7fffu + (a[l] >> 16 & 1)) >> 16;
    d[l] = m >> l & 1 ? static_cast<uint16_t>(is_nan ? 0x7fffu : rounded) : d[l];
  }
}

template <Rounding rounding, class F>
Run from_float_to(const std::string& type) {
  if (type == "u8") return from_float<rounding, F, uint8_t>;
  if (type == "s8") return from_float<rounding, F, int8_t>;
  if (type == "u16") return from_float<rounding, F, uint16_t>;
  if (type == "s16") return from_float<rounding, F, int16_t>;
  if (type == "u32") return from_float<rounding, F, uint32_t>;
  if (type == "s32") return from_float<rounding, F, int32_t>;
  if (type == "u64") return from_float<rounding, F, uint64_t>;
  if (type == "s64") return from_float<rounding, F, int64_t>;
  return nullptr;
}
template <class F>
Run from_float_by(const std::string& rounding, const std::string& type) {
  const bool same = type[0] == 'f';
  if (rounding == "rni")
    return same ? Run{to_integral<kNearest, F>} : from_float_to<kNearest, F>(type);
  if (rounding == "rzi") return same ? Run{to_integral<kZero, F>} : from_float_to<kZero, F>(type);
  if (rounding == "rmi") return same ? Run{to_integral<kDown, F>} : from_float_to<kDown, F>(type);
  if (rounding == "rpi") return same ? Run{to_integral<kUp, F>} : from_float_to<kUp, F>(type);
  return nullptr;
}

}  // namespace

const float* half_values() {
  static const std::vector<float> all = [] {
    std::vector<float> values(65536);
    for (uint32_t bits = 0; bits < 65536; ++bits)
      values[bits] = half_value(static_cast<uint16_t>(bits));
    return values;
  }();
  return all.data();
}

// "cvt", roundings, the type to and the type from.
Conversion find_conversion(const std::vector<std::string>& modifiers, int to_bits, int from_bits) {
  const size_t n = modifiers.size();
  const std::string &to = modifiers[n - 2], &from = modifiers[n - 1];
  const std::string rounding = n == 4 ? modifiers[1] : "";
  const bool from_is_float = from[0] == 'f', to_is_float = to[0] == 'f';
  Conversion c = {nullptr, to_bits, from_bits, 0, 0};
  if (n < 3 || n > 4) return c;
  if (!from_is_float) c.reader = index_of(from, from_bits);
  if (!to_is_float && to != "bf16") c.writer = index_of(to, to_bits);
  if (to == "bf16") {
    if (from == "f32" && rounding == "rn" && to_bits == 16) c.run = to_bfloat16;
  } else if (!from_is_float && !to_is_float) {
    if (!rounding.empty()) return c;
    const std::string both =
        to + "." + from + "/" + std::to_string(to_bits) + "." + std::to_string(from_bits);
    c.run = integers;
    if (both == "u64.u32/64.32") c.run = plain<uint64_t, uint32_t>;
    if (both == "s64.s32/64.32") c.run = plain<int64_t, int32_t>;
    if (both == "u32.u64/32.64") c.run = plain<uint32_t, uint64_t>;
    if (both == "u16.u32/16.32") c.run = plain<uint16_t, uint32_t>;
    if (both == "u32.u16/32.16") c.run = plain<uint32_t, uint16_t>;
  } else if (!from_is_float) {
    if (rounding != "rn") return c;
    if (to == "f32") c.run = from == "u64" ? to_float<float, uint64_t> : to_float<float, int64_t>;
    if (to == "f64") c.run = from == "u64" ? to_float<double, uint64_t> : to_float<double, int64_t>;
  } else if (!to_is_float) {
    if (from == "f32") c.run = from_float_by<float>(rounding, to);
    if (from == "f64") c.run = from_float_by<double>(rounding, to);
  } else if (from == to) {
    if (from == "f32") c.run = from_float_by<float>(rounding, to);
    if (from == "f64") c.run = from_float_by<double>(rounding, to);
  } else if (to == "f64" && from == "f32" && rounding.empty()) {
    c.run = between_floats<double, float>;
  } else if (to == "f32" && from == "f64" && rounding == "rn") {
    c.run = between_floats<float, double>;
  } else if (to == "f32" && from == "f16" && rounding.empty()) {
    c.run = from_half;
  } else if (to == "f16" && from == "f32" && rounding == "rn") {
    c.run = to_half;
  }
  return c;
}

}  // namespace ptx
