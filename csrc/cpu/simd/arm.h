// Whether kernels are compiled for NEON ("Advanced SIMD"). Every 64-bit ARM processor has it, so it
// fills the default slot there, and nothing is detected at run time.
//
// NOTE [ Why not a library of vectors ]
// xsimd, std::experimental::simd and Highway were tried here. A file with one loop takes a second
// or more to compile, or does not compile with GCC 12, and there are kernels by the hundred. None
// has what the warps are made of, loads of the pairs of neighbouring taps; those would be written
// for each instruction set all the same. SVE is not used: its vectors are as wide as NEON's on most
// processors that have it.
//
// NEON rounds halves to even, keeps subnormal numbers and does not fuse products with sums unless
// told to, so results have the bits of the other instruction sets. Differences that matter here:
// FMIN and FMAX pass NaNs on and take -0 for less than +0, where comparisons do neither;
// conversions to integers saturate, and make 0 of NaN.
//
// -DVISOPS_NEON=0 compiles the plain kernels for ARM; 1 is for tests/neon_emulation.
#pragma once

#if !defined(VISOPS_NEON)
#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#define VISOPS_NEON 1
#else
#define VISOPS_NEON 0
#endif
#endif

#if VISOPS_NEON
#include <arm_neon.h>
#endif
