// What the checks count, and what other schedules change: `probes cost <name>` prints the counts of
// a kernel, `probes schedule <name>` how many different results several seeds give.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "memory.h"

extern "C" void visops_count_costs(int is_on);
extern "C" const char* visops_take_costs();

namespace {

using cuda_emulation::check::remember;
using visops::launch;

// Neighbouring lanes, neighbouring floats: 4 sectors.
__global__ void dense(float* out, const float* in) { out[threadIdx.x] = in[threadIdx.x]; }

// A sector for each lane's read.
__global__ void strided(float* out, const float* in) { out[threadIdx.x] = in[threadIdx.x * 8]; }

// Half of the lanes skip every other turn.
__global__ void uneven(float* out, const float* in) {
  float sum = 0;
  for (unsigned i = 0; i < 1 + threadIdx.x % 2; ++i) sum += in[i * 32 + threadIdx.x];
  out[threadIdx.x] = sum;
}

// All lanes want words of one bank.
__global__ void one_bank(float* out, const float*) {
  __shared__ float tile[32 * 32];
  tile[threadIdx.x * 32] = 1;
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x * 32];
}

// All lanes want one word.
__global__ void broadcast(float* out, const float*) {
  __shared__ float tile[32];
  tile[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = tile[5];
}

// Doubles: two passes, and no fewer would do.
__global__ void wide(float* out, const float*) {
  __shared__ double tile[32];
  tile[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = static_cast<float>(tile[31 - threadIdx.x]);
}

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
  const std::map<std::string, void (*)(float*, const float*)> costs = {
      {"dense", dense},       {"strided", strided},     {"uneven", uneven},
      {"one_bank", one_bank}, {"broadcast", broadcast}, {"wide", wide}};
  const std::map<std::string, void (*)(float*)> schedules = {
      {"lost_update", lost_update}, {"stale_flag", stale_flag}, {"atomics", atomics}};
  const std::string name = argc == 3 ? argv[2] : "";
  if (costs.count(name) != 0) {
    auto* const in = static_cast<float*>(std::aligned_alloc(32, 4096));
    auto* const out = static_cast<float*>(std::aligned_alloc(32, 4096));
    std::fill(in, in + 1024, 1.0f);
    remember(in, in, 4096, false, "[1024]");
    remember(out, out, 4096, false, "[1024]");
    visops_count_costs(1);
    launch(costs.at(name), dim3(1), dim3(32), 0, nullptr, out, in);
    std::printf("%s", visops_take_costs());
    return 0;
  }
  if (schedules.count(name) == 0) return 2;
  std::set<std::string> results;
  for (unsigned seed = 1; seed <= 8; ++seed) results.insert(result_of(schedules.at(name), seed));
  std::printf("%zu\n", results.size());
  return 0;
}
