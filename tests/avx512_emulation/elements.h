// The elements of 512-bit vectors, by which avx512.h does all its work.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#define VISOPS_EMULATED inline __attribute__((always_inline))

namespace visops {
namespace avx512 {

// The 64 bytes of a vector as elements.
template <class T>
struct Elements {
  static constexpr int kCount = 64 / sizeof(T);
  T at[kCount];
};

template <class To, class From>
VISOPS_EMULATED To same_bytes(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as many bytes");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
template <class T, class V>
VISOPS_EMULATED Elements<T> elements(const V& v) {
  return same_bytes<Elements<T>>(v);
}

// A vector whose first bytes are x.
template <class V, class X>
VISOPS_EMULATED V begins_with(const X& x) {
  constexpr int kUndefined = 0xa5;
  V v;
  memset(&v, kUndefined, sizeof(V));
  memcpy(&v, &x, sizeof(X));
  return v;
}

template <class T, class V, class F>
VISOPS_EMULATED V each(const V& a, const F& f) {
  Elements<T> x = elements<T>(a);
  for (T& element : x.at) element = f(element);
  return same_bytes<V>(x);
}
template <class T, class V, class F>
VISOPS_EMULATED V each(const V& a, const V& b, const F& f) {
  Elements<T> x = elements<T>(a);
  const Elements<T> y = elements<T>(b);
  for (int k = 0; k < x.kCount; ++k) x.at[k] = f(x.at[k], y.at[k]);
  return same_bytes<V>(x);
}

template <class T, class V, class F>
VISOPS_EMULATED V each(const V& a, const V& b, const V& c, const F& f) {
  Elements<T> x = elements<T>(a);
  const Elements<T> y = elements<T>(b), z = elements<T>(c);
  for (int k = 0; k < x.kCount; ++k) x.at[k] = f(x.at[k], y.at[k], z.at[k]);
  return same_bytes<V>(x);
}

template <class V, class T>
VISOPS_EMULATED V filled(T x) {
  Elements<T> v;
  for (T& element : v.at) element = x;
  return same_bytes<V>(v);
}

// Each element becomes one of another type.
template <class From, class To, class V, class X>
VISOPS_EMULATED V converted(const X& x) {
  constexpr int kCount = sizeof(X) / sizeof(From);
  static_assert(sizeof(V) / sizeof(To) == kCount, "as many elements");
  From from[kCount];
  To to[kCount];
  memcpy(from, &x, sizeof(X));
  for (int k = 0; k < kCount; ++k) to[k] = static_cast<To>(from[k]);
  return same_bytes<V>(to);
}

// Element k is element from(k) of a and then b, in each block of `block` elements.
template <class T, class V, class F>
VISOPS_EMULATED V picked(const V& a, const V& b, int block, const F& from) {
  const Elements<T> x = elements<T>(a), y = elements<T>(b);
  Elements<T> out;
  for (int k = 0; k < x.kCount; ++k) {
    const int begin = k / block * block, i = from(k - begin);
    out.at[k] = i < block ? x.at[begin + i] : y.at[begin + i - block];
  }
  return same_bytes<V>(out);
}
// The lower or upper halves of blocks of 16 bytes, in turn.
template <class T, class V>
VISOPS_EMULATED V unpacked(const V& a, const V& b, bool is_high) {
  constexpr int kBlock = 16 / sizeof(T);
  return picked<T>(a, b, kBlock, [&](int k) {
    return k / 2 + (is_high ? kBlock / 2 : 0) + (k % 2 ? kBlock : 0);
  });
}
template <class T, class V>
VISOPS_EMULATED V permuted(const V& a, const __m512i& index, const V& b) {
  const Elements<T> i = elements<T>(index);
  constexpr int kCount = Elements<T>::kCount;
  return picked<T>(a, b, kCount, [&](int k) { return static_cast<int>(i.at[k] % (2 * kCount)); });
}
template <class T, class V>
VISOPS_EMULATED V permuted(const __m512i& index, const V& v) {
  return permuted<T>(v, each<T>(index, [](T i) { return i % Elements<T>::kCount; }), v);
}

// Those of `a` where the mask has a bit.
template <class T, class V>
VISOPS_EMULATED V chosen(uint64_t mask, const V& a, const V& otherwise) {
  const Elements<T> x = elements<T>(a);
  Elements<T> out = elements<T>(otherwise);
  for (int k = 0; k < out.kCount; ++k) {
    if (mask >> k & 1) out.at[k] = x.at[k];
  }
  return same_bytes<V>(out);
}
template <class T, class V, class F>
VISOPS_EMULATED uint64_t mask_where(const V& a, const V& b, const F& f) {
  const Elements<T> x = elements<T>(a), y = elements<T>(b);
  uint64_t mask = 0;
  for (int k = 0; k < x.kCount; ++k) mask |= uint64_t{f(x.at[k], y.at[k])} << k;
  return mask;
}

template <class V>
VISOPS_EMULATED V load(const void* p) {
  V v;
  memcpy(&v, p, sizeof(V));
  return v;
}
template <class T>
VISOPS_EMULATED __m512i load_some(uint64_t mask, const void* p) {
  Elements<T> out = {};
  for (int k = 0; k < out.kCount; ++k) {
    if (mask >> k & 1) memcpy(&out.at[k], static_cast<const T*>(p) + k, sizeof(T));
  }
  return same_bytes<__m512i>(out);
}
template <class T>
VISOPS_EMULATED void store_some(void* p, uint64_t mask, const __m512i& v) {
  const Elements<T> x = elements<T>(v);
  for (int k = 0; k < x.kCount; ++k) {
    if (mask >> k & 1) memcpy(static_cast<T*>(p) + k, &x.at[k], sizeof(T));
  }
}
VISOPS_EMULATED void check_alignment(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % 64 != 0) abort();
}

template <class X, class V>
VISOPS_EMULATED V with_part(V v, const X& part, int position) {
  memcpy(reinterpret_cast<char*>(&v) + position * sizeof(X), &part, sizeof(X));
  return v;
}
template <class X, class V>
VISOPS_EMULATED X part_of(const V& v, int position) {
  X part;
  memcpy(&part, reinterpret_cast<const char*>(&v) + position * sizeof(X), sizeof(X));
  return part;
}

}  // namespace avx512
}  // namespace visops
