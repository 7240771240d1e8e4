// Lets a test process change between kinds of kernel, and read what kernels count: linked into test
// builds only, and called through ctypes by tests/kernels.py. Each module has a slot in force of
// its own.
#include <exception>
#include <string>

#include "core/dispatch/kernel_stub.h"
#include "fibers.h"
#include "tally_count.h"

// Null, or what is wrong with the name.
extern "C" VISOPS_API const char* visops_force_cpu(const char* name) {
  static std::string error;
  try {
    visops::force_cpu_slot(name);
    return nullptr;
  } catch (const std::exception& caught) {
    error = caught.what();
    return error.c_str();
  }
}

// Draws the order of emulated blocks and threads; 0: the usual one. Returns the seed before.
extern "C" VISOPS_API unsigned long long visops_set_schedule(unsigned long long seed) {
  return cuda_emulation::schedule_seed().exchange(seed);
}

// What emulated kernels have counted with tally() since the last call.
extern "C" VISOPS_API long long visops_take_tally() {
  return cuda_emulation::tally_count().exchange(0);
}

// How many emulated kernels have been started since the last call, one for several in a row.
extern "C" VISOPS_API long long visops_take_launches() {
  return cuda_emulation::launch_count().take();
}
