// Other orders that a GPU may run threads and blocks in: see NOTE [ Schedules of emulated kernels
// ].
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_emulation::check {

void begin_schedule();  // of a launch, as schedule_seed() has it
// Lets other threads of the block run first, now and then. Called before an access.
void maybe_pause();
// What a thread is about to do to global memory.
void before_volatile_write(uintptr_t at, size_t bytes);
void before_atomic(uintptr_t at, size_t bytes);

void begin_schedule_of_block();
void end_schedule_of_block();

}  // namespace cuda_emulation::check
