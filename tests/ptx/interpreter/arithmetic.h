// How an instruction goes through the lanes of a warp, and the table that it is found in.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "select.h"

namespace ptx {

using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "one size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline float canonical(float value) {
  return value == value ? value
                        : bits_as<float>((bits_as<u32>(value) & nan_bits.keep) | nan_bits.set);
}
inline double canonical(double value) { return value; }

template <class Op, class D, class... A>
void apply(const Warp& w, D* d, const A*... a) {
  if (w.full) {
    PTX_LANES d[l] = Op::of(a[l]...);
  } else {
    const u32 m = w.active;
    PTX_LANES {
      const D r = Op::of(a[l]...);
      d[l] = m >> l & 1 ? r : d[l];
    }
  }
}
template <class Op, class D, class... A, size_t... k>
void apply_to(const Warp& w, const Instruction& i, std::index_sequence<k...>) {
  const u32 positions[4] = {i.a, i.b, i.c, i.v[0]};
  apply<Op, D, A...>(w, w.at<D>(i.d), w.at<A>(positions[k])...);
}
// Runs an operation of up to four operands.
template <class Op, class D, class... A>
void each(Warp& w, const Instruction& i) {
  apply_to<Op, D, A...>(w, i, std::index_sequence_for<A...>());
}

#define PTX_UNARY(name, ...)              \
  struct name {                           \
    template <class T>                    \
    static T of(T a) {                    \
      return static_cast<T>(__VA_ARGS__); \
    }                                     \
  };
#define PTX_BINARY(name, ...)             \
  struct name {                           \
    template <class T>                    \
    static T of(T a, T b) {               \
      return static_cast<T>(__VA_ARGS__); \
    }                                     \
  };

using Table = std::unordered_map<std::string, Entry>;

template <class T>
constexpr int width() {
  return 8 * sizeof(T);
}

template <class T>
constexpr Class integer_class() {
  return sizeof(T) == 8 ? Class::kInt64 : Class::kInt32;
}

template <class Op, class T>
void add_unary(Table* t, const std::string& name, Class k = integer_class<T>()) {
  (*t)[name] = {each<Op, T, T>, width<T>(), width<T>(), 0, 0, k};
}
template <class Op, class T>
void add_binary(Table* t, const std::string& name, Class k = integer_class<T>()) {
  (*t)[name] = {each<Op, T, T, T>, width<T>(), width<T>(), width<T>(), 0, k};
}
template <class Op, class T>
void add_ternary(Table* t, const std::string& name, Class k = integer_class<T>()) {
  (*t)[name] = {each<Op, T, T, T, T>, width<T>(), width<T>(), width<T>(), width<T>(), k};
}

// Fill the table (integers.cpp, floats.cpp).
void add_integers(Table* t);
void add_floats(Table* t);

}  // namespace ptx
