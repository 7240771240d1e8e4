// The __shared__ variables of a kernel, looked through for writes that GCC does not tell of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory.h"

namespace cuda_emulation::check {

// NOTE [ Unseen writes ]
// In `variable = f()` GCC lets f write its result to the variable at once, and -fsanitize=thread
// says nothing of it. So variables are compared with what they held when the thread went on. They
// are known from the first access that is seen, in this launch of the kernel or an earlier one.

// The variables that earlier launches of the kernel have touched are known again.
void begin_variables(const void* kernel);
void end_variables(const void* kernel);
// Makes all that are known look unwritten.
void fill_variables();
void know_variable(const Extent& extent);
size_t variable_bytes();

// call(extent, begin, bytes, before) for pieces with bytes that have changed since the last call.
using Change = void (*)(const Extent& extent, uintptr_t begin, size_t bytes,
                        const unsigned char* before);
void for_each_change(Change call);

}  // namespace cuda_emulation::check
