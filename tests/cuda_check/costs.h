// What accesses to memory cost a GPU, by count: see NOTE [ Costs of accesses ].
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_emulation::check {

extern bool counts_costs;

void begin_costs(const void* kernel, size_t blocks, size_t threads);
void end_costs_of_block();
void end_costs();
// One thread's access; `where` is the place in the code.
void count_access(unsigned thread, bool is_shared, uintptr_t at, size_t bytes, bool is_write,
                  const void* where);

}  // namespace cuda_emulation::check
