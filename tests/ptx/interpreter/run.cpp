// Runs the blocks of a launch, one after another, and the warps of a block in turns.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "select.h"

namespace ptx {
namespace {

constexpr int kTurn = 1 << 16;  // basic blocks that a warp runs before it is another's turn

std::string who(const Warp& w, const Instruction* i, int line, int lane) {
  const Launch& launch = *w.launch;
  const unsigned thread = static_cast<unsigned>(w.number * kLanes + lane);
  const unsigned x = launch.block[0], y = launch.block[1];
  const auto three = [](unsigned a, unsigned b, unsigned c) {
    return "(" + std::to_string(a) + "," + std::to_string(b) + "," + std::to_string(c) + ")";
  };
  if (i != nullptr) line = i->line;
  const std::string& file = launch.kernel->file;
  std::string op;
  if (i != nullptr && i->number < launch.kernel->operations.size())
    op = " " + launch.kernel->operations[i->number];
  return launch.kernel->plain_name + ": " + file.substr(file.rfind('/') + 1) + ":" +
         std::to_string(line) + op + ": thread " +
         three(thread % x, thread / x % y, thread / x / y) + " of block " +
         three(launch.here[0], launch.here[1], launch.here[2]);
}

uint64_t draw(Launch& launch) {  // xorshift64*
  uint64_t& r = launch.random;
  r ^= r >> 12;
  r ^= r << 25;
  r ^= r >> 27;
  return r * 0x2545f4914f6cdd1dull >> 33;
}

[[noreturn]] void fail_at(const Warp& w, uint32_t block, const std::string& what) {
  throw Error(who(w, nullptr, w.launch->kernel->blocks[block].line, 0) + ": " + what);
}

std::string lines_of(const Warp& w) {
  std::string text;
  for (int g = 0; g < w.group_count; ++g) {
    char mask[16];
    std::snprintf(mask, sizeof(mask), "%08x", w.groups[g].mask);
    text += (g ? ", lanes " : ": lanes ") + std::string(mask) + " at line " +
            std::to_string(w.launch->kernel->blocks[w.groups[g].block].line);
  }
  return text;
}

void leave(Warp& w, int at) { w.groups[at] = w.groups[--w.group_count]; }

// The group that goes on next, or -1. In turns with a seed, and where one has run for long.
int choose(Warp& w, bool tired) {
  int best = -1, count = 0;
  const bool random = w.launch->random != 0;
  for (int g = 0; g < w.group_count; ++g) {
    if (w.groups[g].waits) continue;
    ++count;
    if (random) {
      if (draw(*w.launch) % static_cast<unsigned>(count) == 0) best = g;
    } else if (best < 0 || (tired ? w.groups[g].block > w.groups[best].block
                                  : w.groups[g].block < w.groups[best].block)) {
      best = g;
    }
  }
  return best;
}

void count(Warp& w, uint32_t number) {
  Counts& counts = w.launch->kernel->counts[number];
  ++counts.issues, ++w.issued;
  counts.lanes += static_cast<unsigned>(__builtin_popcount(w.active));
}

template <bool counts>
void run_instructions(Warp& w, const Instruction* i, const Instruction* end) {
  if (counts && w.launch->checks) {
    for (; i != end; ++i) {
      if (i->guard != kNowhere) fail(w, *i, 0, "a guard is not supported with VISOPS_PTX_CHECK");
      check_before(w, *i);
      i->run(w, *i);
      check_after(w, *i);
    }
    return;
  }
  for (; i != end; ++i) {
    if (i->guard != kNowhere) {
      const uint32_t before = w.active, p = w.predicate(i->guard);
      const bool was_full = w.full;
      w.active &= i->guard_negated ? ~p : p;
      w.full = w.full && w.active == before;
      if (w.active != 0) {
        if (counts) count(w, i->number);
        i->run(w, *i);
      }
      w.active = before;
      w.full = was_full;
      continue;
    }
    if (counts) count(w, i->number);
    i->run(w, *i);
  }
}

// Runs a warp until it ends or is at a barrier, or its turn is over.
template <bool counts>
void run_warp(Warp& w) {
  const Kernel& kernel = *w.launch->kernel;
  const Basic* const blocks = kernel.blocks.data();
  const Instruction* const code = kernel.code.data();
  const bool random = w.launch->random != 0;
  int turn = random ? 1 + static_cast<int>(draw(*w.launch) % 64) : kTurn;
  for (;;) {
    int g = choose(w, w.tired);
    w.tired = false;
    if (g < 0) {
      if (w.group_count == 0) {
        w.state = Warp::kEnded;
        return;
      }
      if (w.group_count == 1 && blocks[w.groups[0].block].kind == Basic::kBarrier) {
        if (w.groups[0].mask != w.alive) fail_at(w, w.groups[0].block, "lanes of a warp are lost");
        w.state = Warp::kAtBarrier;
        w.barrier_block = w.groups[0].block;
        return;
      }
      // Those who have left since may have been all that some waited for.
      for (int k = 0; k < w.group_count && g < 0; ++k) {
        const Basic& b = blocks[w.groups[k].block];
        if (b.sync && ready_lanes(w, code[b.begin], w.groups[k].mask) != 0) g = k;
      }
      if (g < 0)
        fail_at(w, w.groups[0].block,
                "lanes of a warp wait for each other at different places" + lines_of(w));
    }
    uint32_t block = w.groups[g].block, active = w.groups[g].mask;
    leave(w, g);
    for (;;) {
      const Basic* b = &blocks[block];
      if (w.group_count != 0) {
        bool yields = false;
        for (int k = w.group_count - 1; k >= 0; --k) {
          if (w.groups[k].block == block) {
            active |= w.groups[k].mask;
            leave(w, k);
          } else if (!random && w.groups[k].block < block && !w.groups[k].waits) {
            yields = true;
          }
        }
        if (random && w.group_count != 0) yields = draw(*w.launch) % 4 == 0;
        if (yields) {
          w.groups[w.group_count++] = {block, active, false};
          break;
        }
      }
      if (--turn <= 0) {
        w.groups[w.group_count++] = {block, active, false};
        w.tired = w.group_count > 1;  // these may be what it waits for, or other warps
        return;
      }
      w.active = active;
      w.full = active == w.alive;
      if (b->sync) {
        const uint32_t ready = w.full && *w.at<uint32_t>(code[b->begin].members) == kAll &&
                                       (code[b->begin].members & kConstant)
                                   ? active
                                   : ready_lanes(w, code[b->begin], active);
        if (ready != active) {
          w.groups[w.group_count++] = {block, active & ~ready, true};
          if (ready == 0) break;
          active = w.active = ready;
          w.full = false;
        }
      }
      run_instructions<counts>(w, code + b->begin, code + b->end);
      if (counts && b->number != kNowhere) count(w, b->number);
      if (b->kind == Basic::kFall) {
        block = b->next;
        continue;
      }
      if (b->kind == Basic::kBarrier) {
        w.groups[w.group_count++] = {block, active, true};
        break;
      }
      uint32_t taken = active;
      if (b->guard != kNowhere) {
        if (counts && w.launch->checks) check_branch(w, *b, active);
        const uint32_t p = w.predicate(b->guard);
        taken &= b->guard_negated ? ~p : p;
      }
      if (b->kind == Basic::kEnd) {
        w.alive &= ~taken;
        active &= ~taken;
        block = b->next;
        if (active == 0) break;
        continue;
      }
      if (taken == active) {
        block = b->taken;
      } else if (taken == 0) {
        block = b->next;
      } else if (b->taken < b->next) {
        w.groups[w.group_count++] = {b->next, active & ~taken, false};
        block = b->taken, active = taken;
      } else {
        w.groups[w.group_count++] = {b->taken, taken, false};
        block = b->next, active &= ~taken;
      }
    }
  }
}

// What a thread keeps from launch to launch.
struct Storage {
  std::vector<unsigned char> registers, shared, written, local;
  std::vector<uint32_t> defined;
  std::vector<Warp> warps;
};

unsigned char* aligned(std::vector<unsigned char>* bytes, size_t size) {
  if (bytes->size() < size + 64) bytes->resize(size + 64);
  const size_t past = reinterpret_cast<uintptr_t>(bytes->data()) % 64;
  return bytes->data() + (past ? 64 - past : 0);
}

void begin_block(Launch& launch, std::vector<Warp>& warps, unsigned threads, size_t local_bytes) {
  const Kernel& kernel = *launch.kernel;
  std::memset(launch.shared, 0xcd, launch.shared_bytes);
  std::memset(launch.shared_written, 0, launch.shared_bytes);
  for (Warp& w : warps) {
    const unsigned left = threads - static_cast<unsigned>(w.number) * kLanes;
    w.alive = left >= kLanes ? kAll : (1u << left) - 1;
    w.group_count = 1;
    w.groups[0] = {0, w.alive, false};
    w.state = Warp::kRuns;
    w.issued = 0;
    if (launch.checks)
      std::memset(w.defined, 0, sizeof(uint32_t) * kernel.function.registers.size());
    if (local_bytes != 0) std::memset(w.local, 0xcd, local_bytes * kLanes);
    for (int k = 0; k < 3; ++k) {
      uint32_t* const to = w.at<uint32_t>(kernel.special[kCtaX + k]);
      for (int l = 0; l < kLanes; ++l) to[l] = launch.here[k];
    }
  }
}

void run_block(Launch& launch, std::vector<Warp>& warps, bool backwards) {
  const Kernel& kernel = *launch.kernel;
  std::vector<size_t> order(warps.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = backwards ? order.size() - 1 - i : i;
  for (;;) {
    if (launch.random != 0) {
      for (size_t i = 1; i < order.size(); ++i) std::swap(order[i], order[draw(launch) % (i + 1)]);
    }
    size_t at_barrier = 0, ended = 0;
    for (const size_t n : order) {
      Warp& w = warps[n];
      if (w.state == Warp::kRuns)
        launch.counts || launch.checks ? run_warp<true>(w) : run_warp<false>(w);
      at_barrier += w.state == Warp::kAtBarrier;
      ended += w.state == Warp::kEnded;
    }
    if (ended == warps.size()) {
      for (const Warp& w : warps) launch.longest = std::max(launch.longest, w.issued);
      return;
    }
    if (at_barrier + ended < warps.size()) continue;
    bool partly = ended != 0, same = true;
    const Warp* first = nullptr;
    for (const Warp& w : warps) {
      if (w.state != Warp::kAtBarrier) continue;
      if (first == nullptr) first = &w;
      same = same && w.barrier_block == first->barrier_block;
      const size_t lanes =
          std::min<size_t>(kLanes, size_t{launch.block[0]} * launch.block[1] * launch.block[2] -
                                       static_cast<size_t>(w.number) * kLanes);
      partly = partly || w.alive != (lanes == kLanes ? kAll : (1u << lanes) - 1);
    }
    if (partly)
      fail_at(*first, first->barrier_block,
              "some threads of the block have left while others wait at a barrier");
    if (!same) {
      Instruction at;
      at.line = kernel.blocks[first->barrier_block].line;
      at.number = kNowhere;
      note(*first, at, 0, "warps meet at different barriers of the text");
    }
    for (Warp& w : warps) {
      w.groups[0].block = kernel.blocks[w.barrier_block].next;
      w.groups[0].waits = false;
      w.state = Warp::kRuns;
    }
  }
}

}  // namespace

void fail(const Warp& w, const Instruction& i, int lane, const std::string& what) {
  throw Error(who(w, &i, 0, lane) + ": " + what);
}

void note(const Warp& w, const Instruction& i, int lane, const std::string& what) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (w.launch->kernel->told.insert(i.line).second) log_line(who(w, &i, 0, lane) + ": " + what);
}

void remember(Launch& launch, uint64_t address, size_t bytes) {
  for (uint64_t word = address / 8; word <= (address + bytes - 1) / 8; ++word) {
    uint64_t value;
    std::memcpy(&value, reinterpret_cast<const void*>(word * 8), sizeof(value));
    launch.before->emplace(word, value);
  }
}

void run(Launch& launch) {
  static thread_local Storage storage;
  Kernel& kernel = *launch.kernel;
  const unsigned threads = launch.block[0] * launch.block[1] * launch.block[2];
  const size_t warp_count = (threads + kLanes - 1) / kLanes;
  const size_t local = kernel.local_bytes;
  unsigned char* const registers = aligned(&storage.registers, kernel.register_bytes * warp_count);
  unsigned char* const local_memory = aligned(&storage.local, local * kLanes * warp_count);
  const size_t register_count = kernel.function.registers.size();
  if (launch.checks) storage.defined.resize(register_count * warp_count);
  launch.shared = aligned(&storage.shared, launch.shared_bytes);
  launch.shared_written = aligned(&storage.written, launch.shared_bytes);
  std::vector<Warp>& warps = storage.warps;
  warps.assign(warp_count, Warp());
  for (size_t n = 0; n < warp_count; ++n) {
    Warp& w = warps[n];
    w.base[0] = registers + n * kernel.register_bytes;
    w.base[1] = kernel.constants.data();
    w.launch = &launch;
    w.number = static_cast<int>(n);
    w.local = local_memory + n * local * kLanes;
    if (launch.checks) w.defined = storage.defined.data() + n * register_count;
    for (int l = 0; l < kLanes; ++l) {
      const unsigned t = static_cast<unsigned>(n) * kLanes + static_cast<unsigned>(l);
      const auto set = [&](int special, unsigned value) {
        w.at<uint32_t>(kernel.special[special])[l] = value;
      };
      set(kTidX, t % launch.block[0]);
      set(kTidY, t / launch.block[0] % launch.block[1]);
      set(kTidZ, t / launch.block[0] / launch.block[1]);
      for (int k = 0; k < 3; ++k) set(kNtidX + k, launch.block[k]), set(kNctaX + k, launch.grid[k]);
      set(kLaneId, static_cast<unsigned>(l));
      set(kWarpId, static_cast<unsigned>(n));
    }
  }
  const size_t blocks = size_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  std::vector<size_t> order;
  if (launch.random != 0) {
    order.resize(blocks);
    for (size_t i = 0; i < blocks; ++i) {
      const size_t j = draw(launch) % (i + 1);
      order[i] = order[j];
      order[j] = i;
    }
  }
  bool backwards = true;
  for (size_t i = 0; i < blocks; ++i) {
    const size_t n = order.empty() ? i : order[i];
    launch.here[0] = static_cast<unsigned>(n % launch.grid[0]);
    launch.here[1] = static_cast<unsigned>(n / launch.grid[0] % launch.grid[1]);
    launch.here[2] = static_cast<unsigned>(n / launch.grid[0] / launch.grid[1]);
    backwards = !backwards;
    begin_block(launch, warps, threads, local);
    run_block(launch, warps, backwards);
  }
}

}  // namespace ptx
