// Spellings that differ between compilers. No torch, no Python.
//
// Functions of the core headers are `static`: kernel files are compiled once per instruction set,
// and an ordinary inline function emitted from an AVX-512 object could be picked by the linker
// for every CPU. Internal linkage keeps each object to its own copy.
#pragma once

#if defined(__CUDACC__)
#define VISOPS_DEVICE __host__ __device__
#else
#define VISOPS_DEVICE
#endif

#define VISOPS_FN VISOPS_DEVICE static inline

#define VISOPS_ALWAYS_INLINE inline __attribute__((always_inline))
#define VISOPS_NOINLINE __attribute__((noinline))
#define VISOPS_RESTRICT __restrict__
#if defined(_WIN32)
#define VISOPS_API __declspec(dllexport)
#else
#define VISOPS_API __attribute__((visibility("default")))
#endif
#define VISOPS_UNROLL _Pragma("GCC unroll 8")
// Before short loops: GCC would unroll them first and then not vectorize them.
#define VISOPS_NO_UNROLL _Pragma("GCC unroll 1")

// For small functions that compilers decline to inline into hot loops.
#define VISOPS_HOT_FN VISOPS_DEVICE static VISOPS_ALWAYS_INLINE
