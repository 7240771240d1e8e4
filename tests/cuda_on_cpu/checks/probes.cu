// What other schedules change: `probes <name>` prints how many different results several seeds
// give.
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "memory.h"

namespace {

using cuda_emulation::check::remember;
using visops::launch;

// Right if nobody comes between the read and the write.
__global__ void lost_update(float* out) {
  volatile float* sum = out;
  sum[0] = sum[0] + 1;
}

// Right if blocks see what earlier ones wrote.
__global__ void stale_flag(float* out) {
  volatile float* flags = out;
  if (threadIdx.x != 0) return;
  float before = 0;
  for (unsigned i = 0; i < blockIdx.x; ++i) before += flags[i];
  flags[blockIdx.x] = 1;
  out[16 + blockIdx.x] = before;
}

__global__ void atomics(float* out) { atomicAdd(out, 1.0f); }

std::string result_of(void (*kernel)(float*), unsigned long long seed) {
  std::vector<float> memory(64);
  remember(&memory, memory.data(), 64 * sizeof(float), false, "[64]");
  cuda_emulation::schedule_seed() = seed;
  launch(kernel, dim3(8), dim3(32), 0, nullptr, memory.data());
  cuda_emulation::check::forget(&memory);
  return {reinterpret_cast<const char*>(memory.data()), 64 * sizeof(float)};
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)(float*)> schedules = {
      {"lost_update", lost_update}, {"stale_flag", stale_flag}, {"atomics", atomics}};
  const std::string name = argc == 2 ? argv[1] : "";
  if (schedules.count(name) == 0) return 2;
  std::set<std::string> results;
  for (unsigned seed = 1; seed <= 8; ++seed) results.insert(result_of(schedules.at(name), seed));
  std::printf("%zu\n", results.size());
  return 0;
}
