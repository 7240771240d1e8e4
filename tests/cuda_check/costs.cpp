// NOTE [ Costs of accesses ]
// A warp's lanes ask for memory together. Fibers run one lane after another, so requests are put
// together again: the n-th accesses of a warp's lanes at one place in the code are one request.
// Where lanes skip a turn, that is what a GPU would do at best.
//
// Global memory moves in sectors of 32 bytes: a request costs as many as its lanes touch. Shared
// memory has 32 banks of 4-byte words: a request costs as many passes as its lanes have different
// words in one bank. An access wider than 16 bytes is several requests.
//
// "Touched" counts each byte that a launch reads, and each that it writes, once: what a kernel with
// perfect caches would move.
#include "costs.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/platform.h"
#include "memory.h"
#include "report.h"

namespace cuda_emulation::check {

bool counts_costs = false;

namespace {

constexpr size_t kSector = 32, kWidest = 16, kWarpLanes = 32, kMostThreads = 1024, kBanks = 32;
constexpr size_t kPage = 4096;

struct Sums {
  uint64_t requests = 0, units = 0, least = 0, bytes = 0;  // units: sectors or passes
  void add(const Sums& other) {
    requests += other.requests;
    units += other.units;
    least += other.least;
    bytes += other.bytes;
  }
};

struct Touch {
  uint32_t turn;
  uint32_t bytes;
  uintptr_t at;
};

// A place in the code, in the block that runs.
struct Position {
  bool is_shared = false;
  std::vector<uint32_t> turns = std::vector<uint32_t>(kMostThreads);
  std::array<std::vector<Touch>, kMostThreads / kWarpLanes> of_warp;
};

struct KernelCost {
  uint64_t launches = 0, blocks = 0, threads = 0, touched = 0;
  Sums global, shared;
  std::map<const void*, Sums> positions;  // of global memory
};

struct PageBits {
  std::bitset<kPage> read, written;
};

std::unordered_map<const void*, Position> positions;
std::unordered_map<uintptr_t, PageBits> pages;
std::map<std::string, KernelCost> kernels;
KernelCost* now = nullptr;

void touch_once(uintptr_t at, size_t bytes, bool is_write) {
  for (size_t i = 0; i < bytes; ++i) {
    PageBits& page = pages[(at + i) / kPage];
    (is_write ? page.written : page.read).set((at + i) % kPage);
  }
}

size_t count_different(std::vector<uintptr_t>* values) {
  std::sort(values->begin(), values->end());
  return std::unique(values->begin(), values->end()) - values->begin();
}

// One request: what its lanes touch of memory.
Sums cost_of(const std::vector<Touch>& lanes, size_t offset, bool is_shared) {
  const size_t unit = is_shared ? 4 : kSector;
  std::vector<uintptr_t> units;
  Sums sums;
  sums.requests = 1;
  for (const Touch& touch : lanes) {
    if (touch.bytes <= offset) continue;
    const size_t bytes = std::min(touch.bytes - offset, kWidest);
    sums.bytes += bytes;
    for (uintptr_t u = (touch.at + offset) / unit; u <= (touch.at + offset + bytes - 1) / unit; ++u)
      units.push_back(u);
  }
  units.resize(count_different(&units));
  if (!is_shared) {
    sums.units = units.size();
    sums.least = (sums.bytes + kSector - 1) / kSector;
    return sums;
  }
  std::array<uint64_t, kBanks> in_bank{};
  for (const uintptr_t word : units) ++in_bank[word % kBanks];
  sums.units = *std::max_element(in_bank.begin(), in_bank.end());
  sums.least = (units.size() + kBanks - 1) / kBanks;
  return sums;
}

Sums cost_of_warp(std::vector<Touch>* touches, bool is_shared) {
  std::stable_sort(touches->begin(), touches->end(),
                   [](const Touch& a, const Touch& b) { return a.turn < b.turn; });
  Sums sums;
  std::vector<Touch> lanes;
  for (size_t i = 0; i < touches->size();) {
    size_t widest = 0;
    lanes.clear();
    for (const uint32_t turn = (*touches)[i].turn;
         i < touches->size() && (*touches)[i].turn == turn; ++i) {
      lanes.push_back((*touches)[i]);
      widest = std::max<size_t>(widest, lanes.back().bytes);
    }
    for (size_t offset = 0; offset < widest; offset += kWidest) {
      sums.add(cost_of(lanes, offset, is_shared));
    }
  }
  touches->clear();
  return sums;
}

std::string numbers(const Sums& sums) {
  std::string text;
  for (const uint64_t n : {sums.requests, sums.units, sums.least, sums.bytes}) {
    text += "\t" + std::to_string(n);
  }
  return text;
}

// The places that ask for the most sectors beyond their bytes, "file:line sectors least".
std::string worst_positions(const KernelCost& cost) {
  std::vector<std::pair<uint64_t, const void*>> excess;
  for (const auto& [where, sums] : cost.positions) {
    if (sums.units > sums.least) excess.emplace_back(sums.units - sums.least, where);
  }
  std::sort(excess.rbegin(), excess.rend());
  if (excess.size() > 3) excess.resize(3);
  std::vector<const void*> addresses;
  for (const auto& [count, where] : excess) addresses.push_back(where);
  if (addresses.empty()) return "";
  const std::map<const void*, std::string> names = positions_of(addresses);
  std::string text;
  for (const auto& [count, where] : excess) {
    const Sums& sums = cost.positions.at(where);
    text += (text.empty() ? "" : ", ") + names.at(where) + " " + std::to_string(sums.units) + " " +
            std::to_string(sums.least);
  }
  return text;
}

}  // namespace

void begin_costs(const void* kernel, size_t blocks, size_t threads) {
  if (!counts_costs) return;
  now = &kernels[function_name(kernel)];
  ++now->launches;
  now->blocks += blocks;
  now->threads += threads;
  positions.clear();
  pages.clear();
}

void count_access(unsigned thread, bool is_shared, uintptr_t at, size_t bytes, bool is_write,
                  const void* where) {
  Position& position = positions[where];
  position.is_shared = is_shared;
  position.of_warp[thread / kWarpLanes].push_back(
      {position.turns[thread]++, static_cast<uint32_t>(bytes), at});
  if (!is_shared) touch_once(at, bytes, is_write);
}

void end_costs_of_block() {
  if (!counts_costs || now == nullptr) return;
  for (auto& [where, position] : positions) {
    for (std::vector<Touch>& touches : position.of_warp) {
      if (touches.empty()) continue;
      const Sums sums = cost_of_warp(&touches, position.is_shared);
      (position.is_shared ? now->shared : now->global).add(sums);
      if (!position.is_shared) now->positions[where].add(sums);
    }
    std::fill(position.turns.begin(), position.turns.end(), 0);
  }
}

void end_costs() {
  if (!counts_costs || now == nullptr) return;
  for (const auto& [page, bits] : pages) now->touched += bits.read.count() + bits.written.count();
  now = nullptr;
}

}  // namespace cuda_emulation::check

using namespace cuda_emulation::check;

// Counts what launches cost from here on, or no more.
extern "C" VISOPS_API void visops_count_costs(int is_on) {
  const auto no_kernel_runs = between_launches();
  counts_costs = is_on != 0;
  kernels.clear();
}

// A line for each kernel since counting began, with tabs: name, launches, blocks, threads, bytes
// touched, of global memory requests, sectors, least sectors and bytes, of shared memory requests,
// passes, least passes and bytes, and the worst places.
extern "C" VISOPS_API const char* visops_take_costs() {
  static std::string text;
  const auto no_kernel_runs = between_launches();
  text.clear();
  for (const auto& [name, cost] : kernels) {
    text += name;
    for (const uint64_t n : {cost.launches, cost.blocks, cost.threads, cost.touched}) {
      text += "\t" + std::to_string(n);
    }
    text += numbers(cost.global) + numbers(cost.shared) + "\t" + worst_positions(cost) + "\n";
  }
  kernels.clear();
  return text.c_str();
}
