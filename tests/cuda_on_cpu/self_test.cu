// Checks of the emulation itself: `self_test <name>` exits with 0 where the check holds.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/byte_products.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"

namespace {

using visops::launch;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

constexpr unsigned kAll = 0xffffffffu;

__global__ void sum_blocks(const int* values, int count, long long* total) {
  __shared__ int partial[64];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  partial[threadIdx.x] = i < count ? values[i] : 0;
  __syncthreads();
  for (unsigned w = blockDim.x / 2; w > 0; w /= 2) {
    if (threadIdx.x < w) partial[threadIdx.x] += partial[threadIdx.x + w];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(total, partial[0]);
}

void block_sum() {
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), -7);
  long long total = 0;
  launch(sum_blocks, dim3(16), dim3(64), 0, nullptr, values.data(), 1000, &total);
  require(total == std::accumulate(values.begin(), values.end(), 0LL), "sum of 1000 values");
}

// Every thread must see what all others wrote before the barrier, whatever order they run in.
__global__ void rotate(int* out, int steps) {
  int* shared = visops::dynamic_shared<int>();
  const unsigned n = blockDim.x, t = threadIdx.x;
  shared[t] = static_cast<int>(t);
  for (int i = 0; i < steps; ++i) {
    __syncthreads();
    const int next = shared[(t + 1) % n];
    __syncthreads();
    shared[t] = next;
  }
  out[blockIdx.x * n + t] = shared[t];
}

void barriers() {
  std::vector<int> out(3 * 100);
  launch(rotate, dim3(3), dim3(100), 100 * sizeof(int), nullptr, out.data(), 7);
  for (int i = 0; i < 300; ++i) require(out[i] == (i % 100 + 7) % 100, "rotation by 7");
}

// Without a barrier between, what a thread sees of another depends on the order they run in.
__global__ void race(int* seen) {
  __shared__ int value;
  if (threadIdx.x == 0) value = 0;
  __syncthreads();
  if (threadIdx.x == 7) value = 1;
  seen[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

void orders() {
  std::vector<int> seen(2 * 16);
  launch(race, dim3(2), dim3(16), 0, nullptr, seen.data());
  for (int t = 0; t < 16; ++t) require(t == 7 || seen[t] != seen[16 + t], "two orders");
}

__global__ void mark(int* out) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
  out[(z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x] += 1;
}

void three_dimensions() {
  std::vector<int> out(6 * 20 * 28);
  launch(mark, dim3(4, 5, 2), dim3(7, 4, 3), 0, nullptr, out.data());
  for (int count : out) require(count == 1, "each thread runs once");
}

__global__ void shuffle(int* down, double* xored, int* broadcast, int* narrow) {
  const int t = static_cast<int>(threadIdx.x);
  int v = t;
  for (int w = 16; w >= 1; w /= 2) v += __shfl_down_sync(kAll, v, w);
  down[t] = v;
  double x = 0.25 + t;
  for (int w = 16; w >= 1; w /= 2) x += __shfl_xor_sync(kAll, x, w);
  xored[t] = x;
  broadcast[t] = __shfl_sync(kAll, 10 * t, 5);
  narrow[t] = __shfl_down_sync(kAll, t, 1, 8);
}

void shuffles() {
  int down[64], broadcast[64], narrow[64];
  double xored[64];
  launch(shuffle, dim3(1), dim3(64), 0, nullptr, down, xored, broadcast, narrow);
  require(down[0] == 496 && down[32] == 496 + 32 * 32, "sum by shuffling down");
  for (int t = 0; t < 64; ++t) {
    const int first = t / 32 * 32;
    require(xored[t] == 496 + 32 * (0.25 + first), "sum by exclusive or");
    require(broadcast[t] == 10 * (first + 5), "broadcast within a warp");
    require(narrow[t] == (t % 8 == 7 ? t : t + 1), "shuffle within 8 lanes");
  }
}

__global__ void vote(unsigned* ballot, int* any, int* all) {
  const unsigned t = threadIdx.x;
  ballot[t] = __ballot_sync(kAll, t % 3 == 0);
  any[t] = __any_sync(kAll, t == 33);
  all[t] = __all_sync(kAll, t >= 32);
}

void votes() {
  unsigned ballot[40];  // a warp and a quarter
  int any[40], all[40];
  launch(vote, dim3(1), dim3(40), 0, nullptr, ballot, any, all);
  for (unsigned t = 0; t < 40; ++t) {
    unsigned expected = 0;
    for (unsigned lane = 0; lane < (t < 32 ? 32u : 8u); ++lane) {
      if ((t / 32 * 32 + lane) % 3 == 0) expected |= 1u << lane;
    }
    require(ballot[t] == expected, "ballot");
    require(any[t] == (t >= 32) && all[t] == (t >= 32), "any and all");
  }
}

__global__ void update(int* highest, int* lowest, unsigned* flags, unsigned long long* chain) {
  const int t = static_cast<int>(threadIdx.x);
  atomicMax(highest, t * 7 % 50);
  atomicMin(lowest, t * 7 % 50 - 5);
  atomicOr(flags, 1u << t % 8);
  for (unsigned long long seen = *chain;;) {
    const unsigned long long old = atomicCAS(chain, seen, seen + 2);
    if (old == seen) break;
    seen = old;
  }
}

void atomics() {
  int highest = 0, lowest = 0;
  unsigned flags = 0;
  unsigned long long chain = 1;
  launch(update, dim3(2), dim3(50), 0, nullptr, &highest, &lowest, &flags, &chain);
  require(highest == 49 && lowest == -5 && flags == 0xff && chain == 201, "atomics");
}

// Half of each warp leaves; the others go on shuffling among themselves.
__global__ void leave_early(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  if (t % 2 == 1) return;
  out[t] = __shfl_xor_sync(0x55555555u, t, 2);
  __syncwarp(0x55555555u);
}

void early_exit() {
  std::vector<int> out(64, -1);
  launch(leave_early, dim3(1), dim3(64), 0, nullptr, out.data());
  for (int t = 0; t < 64; ++t) require(out[t] == (t % 2 == 1 ? -1 : (t ^ 2)), "divergent lanes");
}

__global__ void exit_before_barrier(int count) {
  if (static_cast<int>(threadIdx.x) >= count) return;
  __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void read_missing_lane() {
  if (threadIdx.x == 3) return;
  __shfl_sync(kAll, 1, 3);
}
__global__ void throw_in_thread() {
  __syncthreads();
  if (threadIdx.x == 5) throw std::runtime_error("from thread 5");
  __syncthreads();
}
__global__ void nothing() {}

void expect_error(const char* message, const std::function<void()>& run) {
  std::string found = "nothing was thrown";
  try {
    run();
  } catch (const std::runtime_error& error) {
    found = error.what();
  }
  if (found.find(message) == std::string::npos) {
    throw std::logic_error("expected '" + std::string(message) + "', found: " + found);
  }
  block_sum();  // the scheduler works on
}

void errors() {
  expect_error("3 threads of a block have left while 29 wait",
               [] { launch(exit_before_barrier, dim3(2), dim3(32), 0, nullptr, 29); });
  expect_error("different barriers", [] { launch(two_barriers, dim3(1), dim3(32), 0, nullptr); });
  expect_error("takes no part", [] { launch(read_missing_lane, dim3(1), dim3(32), 0, nullptr); });
  expect_error("from thread 5", [] { launch(throw_in_thread, dim3(1), dim3(32), 0, nullptr); });
  expect_error("block size", [] { launch(nothing, dim3(1), dim3(1025), 0, nullptr); });
  expect_error("grid too large", [] { launch(nothing, dim3(1, 65536), dim3(1), 0, nullptr); });
  expect_error("shared memory", [] { launch(nothing, dim3(1), dim3(1), 1 << 20, nullptr); });
  launch(throw_in_thread, dim3(0), dim3(32), 0, nullptr);  // an empty grid starts nothing
}

// Quotients by prepared divisors, at multiples and beside them.
void divisors() {
  const int64_t most = INT32_MAX;
  for (int64_t d = 1; d <= most; d += d < 1000 ? 1 : d / 7) {
    const auto divisor = visops::divisor_of<int32_t>(d);
    for (int64_t q = 0; q * d <= most; q += q < 1000 ? 1 : q / 5) {
      for (int64_t n = q * d - 1; n <= q * d + 1; ++n) {
        if (n < 0 || n > most) continue;
        require(divisor.divide(static_cast<int32_t>(n)) == n / d, "a quotient");
      }
    }
    require(divisor.divide(INT32_MAX) == most / d, "the largest dividend");
  }
  const auto largest = visops::divisor_of<int32_t>(most);
  require(largest.divide(INT32_MAX) == 1 && largest.divide(INT32_MAX - 1) == 0, "the largest");
}

// By the definitions, one byte after another.
void byte_products() {
  const unsigned low = 0x83021ff0u, high = 0x7f80c105u;
  const auto byte_at = [&](unsigned i) { return (i < 4 ? low : high) >> (8 * (i % 4)) & 0xffu; };
  for (unsigned selector = 0; selector < 0x8888u; ++selector) {
    if ((selector & 0x8888u) != 0) continue;
    unsigned picked = 0;
    for (int i = 3; i >= 0; --i) picked = picked << 8 | byte_at(selector >> (4 * i) & 7u);
    require(__byte_perm(low, high, selector) == picked, "bytes picked");
  }
  for (unsigned i = 0; i < 4; ++i) {
    unsigned shifted = 0;
    for (int j = 3; j >= 0; --j) shifted = shifted << 8 | byte_at(i + static_cast<unsigned>(j));
    require(__funnelshift_r(low, high, 8 * i) == shifted, "a funnel shift");
  }
  const int halves = static_cast<int>(0x8000fffdu);  // -3 and -32768
  const int bytes = static_cast<int>(0x7f80fe05u);   // 5, -2, -128 and 127
  require(__dp2a_lo(halves, bytes, 10) == 10 - 3 * 5 + 32768 * 2, "products of bytes 0 and 1");
  require(__dp2a_hi(halves, bytes, -1) == -1 + 3 * 128 - 32768 * 127, "products of bytes 2 and 3");
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> checks = {{"block_sum", block_sum},
                                                    {"barriers", barriers},
                                                    {"orders", orders},
                                                    {"three_dimensions", three_dimensions},
                                                    {"shuffles", shuffles},
                                                    {"votes", votes},
                                                    {"atomics", atomics},
                                                    {"early_exit", early_exit},
                                                    {"errors", errors},
                                                    {"divisors", divisors},
                                                    {"byte_products", byte_products}};
  const auto check = argc == 2 ? checks.find(argv[1]) : checks.end();
  if (check == checks.end()) {
    std::fprintf(stderr, "no such check\n");
    return 2;
  }
  try {
    check->second();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}
