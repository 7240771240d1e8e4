// Vectors of any arithmetic type, as wide as the instruction set's registers; cpu/simd/floats.h
// says which vectors are for what. Lanes never mix, so bits do not depend on the width.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/platform.h"

namespace visops {
namespace {

#if VISOPS_ISA_SLOT == 2
constexpr int kVectorBytes = 64;
#elif VISOPS_ISA_SLOT == 1
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

#if defined(__GNUC__)
template <class T>
struct Register {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
#else
// The vector types of GCC and Clang, as loops that the compiler may vectorise.
template <class T>
struct Register {
  struct type {
    T lane[kVectorBytes / sizeof(T)];
    type operator+(const type& b) const {
      type sum;
      for (size_t i = 0; i < kVectorBytes / sizeof(T); ++i) sum.lane[i] = lane[i] + b.lane[i];
      return sum;
    }
    type operator-(const type& b) const {
      type difference;
      for (size_t i = 0; i < kVectorBytes / sizeof(T); ++i)
        difference.lane[i] = lane[i] - b.lane[i];
      return difference;
    }
    type operator*(const type& b) const {
      type product;
      for (size_t i = 0; i < kVectorBytes / sizeof(T); ++i) product.lane[i] = lane[i] * b.lane[i];
      return product;
    }
    type operator^(const type& b) const {
      type out;
      for (size_t i = 0; i < kVectorBytes / sizeof(T); ++i) out.lane[i] = lane[i] ^ b.lane[i];
      return out;
    }
    type operator>>(int count) const {
      type out;
      for (size_t i = 0; i < kVectorBytes / sizeof(T); ++i) out.lane[i] = lane[i] >> count;
      return out;
    }
    friend type operator-(T value, const type& b) {
      type difference;
      for (size_t i = 0; i < kVectorBytes / sizeof(T); ++i) difference.lane[i] = value - b.lane[i];
      return difference;
    }
  };
};
#endif

// T is float, double, uint16_t, uint32_t or uint64_t. No instruction set multiplies bytes: compute
// those in 16 bits.
template <class T>
struct Vector {
  static constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
  typename Register<T>::type v;
};

template <class T>
VISOPS_ALWAYS_INLINE Vector<T> operator+(Vector<T> a, Vector<T> b) {
  return {a.v + b.v};
}
template <class T>
VISOPS_ALWAYS_INLINE Vector<T> operator-(Vector<T> a, Vector<T> b) {
  return {a.v - b.v};
}
template <class T>
VISOPS_ALWAYS_INLINE Vector<T> operator*(Vector<T> a, Vector<T> b) {
  return {a.v * b.v};
}
// These two are for integers.
template <class T>
VISOPS_ALWAYS_INLINE Vector<T> operator^(Vector<T> a, Vector<T> b) {
  return {a.v ^ b.v};
}
template <class T>
VISOPS_ALWAYS_INLINE Vector<T> operator>>(Vector<T> a, int count) {
  return {a.v >> count};
}

// kCount adjacent elements, at any address.
template <class T>
VISOPS_ALWAYS_INLINE Vector<T> load_vector(const T* p) {
  Vector<T> vector;
  memcpy(&vector.v, p, kVectorBytes);
  return vector;
}
template <class T>
VISOPS_ALWAYS_INLINE void store_vector(T* p, Vector<T> vector) {
  memcpy(p, &vector.v, kVectorBytes);
}

template <class T>
VISOPS_ALWAYS_INLINE Vector<T> broadcast(T value) {
  // A GCC vector takes a number as an operand, and value - 0 is value; filling lane by lane would
  // take an instruction for each.
  return {value - typename Register<T>::type{}};
}

}  // namespace
}  // namespace visops
