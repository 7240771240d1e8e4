// Kernels with one fault each: `faults <name>` prints what the checks say of it, or "nothing".
//
// Places are told from the line of the fault, which carries its name:
// tests/cuda_on_cpu/test_checks.py looks for `FAULT <name>` and `EARLIER <name>`.
#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "memory.h"

namespace {

using cuda_emulation::check::remember;
using visops::launch;

constexpr unsigned kAll = 0xffffffffu;

__global__ void missing_syncthreads(int* out) {
  __shared__ int tile[64];
  tile[threadIdx.x] = 1;                             // EARLIER missing_syncthreads
  out[threadIdx.x] = tile[(threadIdx.x + 32) % 64];  // FAULT missing_syncthreads
}

// Right but for the barrier before the next round.
__global__ void missing_second_barrier(int* out) {
  __shared__ int tile[64];
  for (int round = 0; round < 2; ++round) {
    tile[threadIdx.x] = round;  // FAULT missing_second_barrier
    __syncthreads();
    out[threadIdx.x] = tile[(threadIdx.x + 32) % 64];  // EARLIER missing_second_barrier
  }
}

__global__ void missing_syncwarp(int* out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = 1;                      // EARLIER missing_syncwarp
  out[threadIdx.x] = tile[31 - threadIdx.x];  // FAULT missing_syncwarp
}

// A shuffle makes lanes meet, but orders no memory.
__global__ void shuffle_is_no_barrier(int* out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = 1;  // EARLIER shuffle_is_no_barrier
  const int zero = __shfl_sync(kAll, 0, 0);
  out[threadIdx.x] = tile[31 - threadIdx.x] + zero;  // FAULT shuffle_is_no_barrier
}

// The upper half of the warp meets without the lower one.
__global__ void narrow_mask(int* out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = 1;  // EARLIER narrow_mask
  if (threadIdx.x >= 16) {
    __syncwarp(0xffff0000u);
    out[threadIdx.x] = tile[31 - threadIdx.x];  // FAULT narrow_mask
  }
}

struct Four {
  int at[4];
};
__device__ __attribute__((noinline)) Four four_of(int first) {
  return {{first, first + 1, first + 2, first + 3}};
}

// Nothing tells of the write: the function's result goes straight to shared memory.
__global__ void unseen_write(int* out) {
  __shared__ Four four;
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) four = four_of(round);
    __syncthreads();
    out[threadIdx.x] = four.at[threadIdx.x % 4];  // EARLIER unseen_write
  }
}

// __syncwarp orders nothing between warps.
__global__ void syncwarp_across_warps(int* out) {
  __shared__ int tile[64];
  tile[threadIdx.x] = 1;  // EARLIER syncwarp_across_warps
  __syncwarp();
  out[threadIdx.x] = tile[(threadIdx.x + 32) % 64];  // FAULT syncwarp_across_warps
}

// The first block writes it; the second finds what the first has left.
__global__ void uninitialised(int* out) {
  __shared__ int tile[32];
  if (blockIdx.x == 0) tile[threadIdx.x] = 1;
  out[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x];  // FAULT uninitialised
}

__global__ void uninitialised_dynamic(int* out) {
  int* tile = visops::dynamic_shared<int>();
  if (threadIdx.x != 5) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // FAULT uninitialised_dynamic
}

__global__ void unwritten_scratch(int* out, const int* scratch) {
  out[threadIdx.x] = scratch[threadIdx.x];  // FAULT unwritten_scratch
}

__global__ void index_beyond_shared(int* out, int count) {
  __shared__ int tile[32];
  __shared__ int other[32];
  other[threadIdx.x] = 0;
  tile[threadIdx.x + count] = 1;  // FAULT index_beyond_shared
  out[threadIdx.x] = other[threadIdx.x] + tile[threadIdx.x];
}

__device__ __attribute__((noinline)) void put(int* at) {
  *at = 1;  // FAULT pointer_beyond_shared
}
__global__ void pointer_beyond_shared(int* out, int count) {
  __shared__ int tile[32];
  __shared__ int other[32];
  other[threadIdx.x] = 0;
  put(tile + threadIdx.x + count);
  out[threadIdx.x] = other[threadIdx.x];
}

__global__ void beyond_dynamic_shared(int*) {
  visops::dynamic_shared<int>()[threadIdx.x] = 1;  // FAULT beyond_dynamic_shared
}

__global__ void beyond_tensor(int* out) {
  out[threadIdx.x + 1] = 1;  // FAULT beyond_tensor
}

__global__ void host_pointer(int* out, const int* on_host) {
  out[threadIdx.x] = *on_host;  // FAULT host_pointer
}

__global__ void misaligned(const char* bytes, int* out) {
  out[threadIdx.x] = *reinterpret_cast<const int*>(bytes + 2);  // FAULT misaligned
}

__global__ void divergent_barrier(int* out) {
  if (threadIdx.x < 16) {
    __syncthreads();  // FAULT divergent_barrier
  } else {
    __syncthreads();  // EARLIER divergent_barrier
  }
  out[threadIdx.x] = 1;
}

__global__ void divergent_warp_barrier(int* out) {
  if (threadIdx.x < 16) {
    __syncwarp();  // FAULT divergent_warp_barrier
  } else {
    __syncwarp();  // EARLIER divergent_warp_barrier
  }
  out[threadIdx.x] = 1;
}

__global__ void cross_block_write(int* out) {
  out[threadIdx.x] = static_cast<int>(blockIdx.x);  // FAULT cross_block_write
}

__global__ void cross_block_read(int* out) {
  if (blockIdx.x == 0) {
    out[threadIdx.x] = 1;  // EARLIER cross_block_read
  } else {
    out[64 + threadIdx.x] = out[threadIdx.x];  // FAULT cross_block_read
  }
}

__global__ void atomic_and_plain(int* out) {
  if (threadIdx.x % 2 == 0) {
    atomicAdd(out, 1);  // EARLIER atomic_and_plain
  } else {
    *out = 7;  // FAULT atomic_and_plain
  }
}

struct Large {
  char bytes[40000];
};
__global__ void many_parameters(int* out, Large large) { *out = large.bytes[0]; }

__global__ void much_shared(int* out) {
  __shared__ int tile[10000];
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

// No fault: all that orders memory, and what needs no order.
__global__ void sound(int* out, int* count) {
  __shared__ int tile[64], flag;
  __shared__ long long sum;
  const unsigned t = threadIdx.x;
  if (t == 0) sum = 0;
  tile[t] = static_cast<int>(t);
  __syncwarp();
  int value = tile[t ^ 1];
  __syncwarp();
  tile[t] = value;
  flag = 1;  // all write the same
  __syncthreads();
  value += tile[63 - t] + flag;
  atomicAdd(&sum, value);
  __syncthreads();
  if (t % 32 < 8) {  // an edge through a lane that both meet
    __syncwarp(0xffu);
    if (t % 32 == 0) tile[t] = 5;
    if (t % 32 <= 1) __syncwarp(0x03u);
    if (t % 32 == 1) tile[t] = tile[t - 1];
    if (t % 32 == 1 || t % 32 == 7) __syncwarp(0x82u);
    if (t % 32 == 7) value += tile[t - 6];
  }
  __syncthreads();
  atomicMax(count, static_cast<int>(sum));
  out[blockIdx.x * 64 + t] = value;
}

// No fault either: what one launch has written unseen, all blocks of the next may read.
__global__ void write_unseen(Four* scratch) {
  if (threadIdx.x == 0) *scratch = four_of(7);
}
__global__ void read_unseen(int* out, const Four* scratch) {
  out[blockIdx.x * 32 + threadIdx.x] = scratch->at[threadIdx.x % 4];
}

const char* message_of(const std::function<void()>& run) {
  static std::string text;
  text = "nothing";
  try {
    run();
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.c_str();
}

}  // namespace

int main(int argc, char** argv) {
  // The heap is no part of the program, whose own variables are a kind of memory of their own.
  std::vector<int> memory(256), scratch(64);
  int* const out = memory.data();
  const dim3 one(1), two(2), warp(32), warps(64);
  remember(out, out, 100 * sizeof(int), false, "[100]");
  remember(&scratch, scratch.data(), 64 * sizeof(int), true, "[64]");
  const std::vector<int> host(1000);
  const auto run = [&](auto kernel, dim3 grid, dim3 block, auto... args) {
    return [=] { launch(kernel, grid, block, 0, nullptr, args...); };
  };
  const std::map<std::string, std::function<void()>> faults = {
      {"missing_syncthreads", run(missing_syncthreads, one, warps, out)},
      {"missing_second_barrier", run(missing_second_barrier, one, warps, out)},
      {"missing_syncwarp", run(missing_syncwarp, one, warp, out)},
      {"shuffle_is_no_barrier", run(shuffle_is_no_barrier, one, warp, out)},
      {"narrow_mask", run(narrow_mask, one, warp, out)},
      {"unseen_write", run(unseen_write, one, warp, out)},
      {"syncwarp_across_warps", run(syncwarp_across_warps, one, warps, out)},
      {"uninitialised", run(uninitialised, two, warp, out)},
      {"uninitialised_dynamic",
       [&] { launch(uninitialised_dynamic, one, warp, 32 * sizeof(int), nullptr, out); }},
      {"unwritten_scratch", run(unwritten_scratch, one, warp, out, scratch.data())},
      {"index_beyond_shared", run(index_beyond_shared, one, warp, out, 1)},
      {"pointer_beyond_shared", run(pointer_beyond_shared, one, warp, out, 1)},
      {"beyond_dynamic_shared",
       [&] { launch(beyond_dynamic_shared, one, warp, 31 * sizeof(int), nullptr, out); }},
      {"beyond_tensor", run(beyond_tensor, one, dim3(128), out)},
      {"host_pointer", run(host_pointer, one, warp, out, host.data())},
      {"misaligned",
       run(misaligned, one, warp, reinterpret_cast<const char*>(out), scratch.data())},
      {"divergent_barrier", run(divergent_barrier, one, warp, out)},
      {"divergent_warp_barrier", run(divergent_warp_barrier, one, warp, out)},
      {"cross_block_write", run(cross_block_write, two, warp, out)},
      {"cross_block_read", run(cross_block_read, two, warp, out)},
      {"atomic_and_plain", run(atomic_and_plain, one, warp, out)},
      {"many_parameters", [&] { launch(many_parameters, one, one, 0, nullptr, out, Large{}); }},
      {"much_shared", [&] { launch(much_shared, one, warp, 10000, nullptr, out); }},
      {"sound", run(sound, one, warps, out, out + 64)},
      {"sound_launches",
       [&] {
         auto* const four = reinterpret_cast<Four*>(scratch.data());
         launch(write_unseen, one, warp, 0, nullptr, four);
         launch(read_unseen, two, warp, 0, nullptr, out, four);
       }},
  };
  const auto fault = argc == 2 ? faults.find(argv[1]) : faults.end();
  if (fault == faults.end()) {
    std::fprintf(stderr, "no such fault\n");
    return 2;
  }
  std::printf("%s\n", message_of(fault->second));
  return 0;
}
