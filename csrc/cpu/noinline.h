// Keeps a function out of its caller: for work of hundreds of cycles, which a call does not slow
// down. Compilers inline whatever has one caller, and the time they take grows faster than the size
// of a function.
#pragma once

#if defined(_MSC_VER)
#define VISOPS_NOINLINE __declspec(noinline)
#else
#define VISOPS_NOINLINE __attribute__((noinline))
#endif
