// The threads of an emulated CUDA block, as fibers of one host thread.
//
// A fiber runs thread after thread of the block until one of them has to wait; that thread then
// keeps the fiber, and another fiber goes on with the threads not yet begun. So a kernel without
// barriers runs as a plain loop, and only threads that wait cost a switch and a stack. Fibers are
// kept from block to block and from launch to launch. Blocks alternate between running their
// threads upwards and downwards, so that a missing barrier shows; schedule_seed() draws the order
// of blocks and threads at random instead. With the checks of memory (checks/), a seed
// also makes threads change places at accesses to memory.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "check.h"

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace cuda_emulation {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kMaxSharedBytes = 163 * 1024;

struct Here {
  uint3 thread{}, block{};
  dim3 block_size, grid_size;
};

inline Here& here() {
  static thread_local Here value;
  return value;
}

// Where in the sources threads meet: they must meet at one place.
struct Site {
  const char* file = "";
  int line = 0;
  bool operator==(const Site& other) const { return file == other.file && line == other.line; }
  std::string text() const {
    const std::string path = file;
    return path.substr(path.rfind('/') + 1) + ":" + std::to_string(line);
  }
};

// Draws the order of blocks and threads; 0: blocks in ascending order, threads upwards and
// downwards in turn. VISOPS_EMULATION_SEED sets it for a process.
inline std::atomic<uint64_t>& schedule_seed() {
  static std::atomic<uint64_t> seed{[] {
    const char* text = std::getenv("VISOPS_EMULATION_SEED");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  }()};
  return seed;
}

// A stack and a place to go on from. swapcontext() makes a system call for the signal mask, which
// is most of its time, and kernels with shuffles switch a great deal; so where the compilers' own
// bare jumps are known to do, ucontext is left only for setting out on a new stack.
class Context {
 public:
  // A new stack, on which `main` runs when first resumed; `main` must not return.
  void make(void (*main)()) {
    stack_.reset(new char[kStackBytes]);
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, main, 0);
  }

  const void* stack() const { return stack_.get(); }

  // Goes on in `to`; returns when someone resumes this.
#if defined(__x86_64__)
  __attribute__((noinline)) void leave_for(Context* to) {
    begun_ = true;
    if (__builtin_setjmp(jump_) == 0) to->resume();
  }

 private:
  [[noreturn]] __attribute__((noinline)) void resume() {
    if (begun_) __builtin_longjmp(jump_, 1);
    setcontext(&context_);
    std::abort();
  }

  bool begun_ = false;
  void* jump_[5];
#else
  void leave_for(Context* to) { swapcontext(&context_, &to->context_); }

 private:
#endif
  ucontext_t context_;
  std::unique_ptr<char[]> stack_;
};

class Scheduler {
 public:
  // Runs `body` once for every thread of every block. Throws what a thread throws, and
  // std::runtime_error for a bad configuration or threads that wait for each other in vain.
  void launch(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
              size_t parameter_bytes, const std::function<void()>& body) {
    require_possible(grid, block, shared_bytes);
    check::begin_launch({kernel,
                         {grid.x, grid.y, grid.z},
                         {block.x, block.y, block.z},
                         shared_bytes,
                         parameter_bytes});
    here().grid_size = grid;
    here().block_size = block;
    threads_.assign(size_t{block.x} * block.y * block.z, Thread{});
    slots_.assign((threads_.size() + 31) / 32 * 32, 0);
    body_ = &body;
    random_ = schedule_seed();
    std::vector<size_t> order;
    const size_t blocks = size_t{grid.x} * grid.y * grid.z;
    if (random_ != 0) draw_order(&order, blocks);
    try {
      for (size_t i = 0; i < blocks; ++i) {
        const size_t linear = order.empty() ? i : order[i];
        here().block = {static_cast<unsigned>(linear % grid.x),
                        static_cast<unsigned>(linear / grid.x % grid.y),
                        static_cast<unsigned>(linear / grid.x / grid.y)};
        shared_.assign(shared_bytes, static_cast<unsigned char>(0xcd));
        check::begin_block(linear, shared_.data());
        run_block();
        check::end_block();
      }
    } catch (...) {
      check::drop_launch();
      fibers_.clear();  // some are stuck inside a thread
      idle_.clear();
      throw;
    }
    check::end_launch();
  }

  // For kernels.
  void sync_block(Site site) {
    if (!check::is_skipped(site.file, site.line)) wait(State::kAtBlockBarrier, 0, site, true);
  }
  // Shuffles and votes make lanes meet, but don't order their accesses to memory.
  void sync_warp(unsigned mask, Site site, bool orders_memory) {
    if (orders_memory && check::is_skipped(site.file, site.line)) return;
    wait(State::kAtWarpBarrier, mask, site, orders_memory);
  }
  // Lets other threads of the block go on first, from wherever this one is.
  void pause() { wait(State::kPaused, 0, {}, false); }
  // Leaves the running thread where it is, for good, and ends the launch with this error.
  [[noreturn]] void abandon(std::exception_ptr error) {
    error_ = std::move(error);
    running_->leave_for(&home_);
    std::abort();
  }
  void* dynamic_shared() { return shared_.data(); }
  unsigned lane() const { return current_ % 32; }
  unsigned long long* slot(unsigned lane) { return &slots_[current_ / 32 * 32 + lane]; }
  bool takes_part(unsigned mask, unsigned lane) const {
    const size_t i = current_ / 32 * 32 + lane;
    return lane < 32 && (mask >> lane & 1) && i < threads_.size() &&
           threads_[i].state != State::kFinished;
  }
  void require_lane(unsigned mask, unsigned lane) const {
    if (!takes_part(mask, lane)) fail("a shuffle reads a lane that takes no part in it");
  }

 private:
  enum class State { kNotBegun, kRunning, kPaused, kAtBlockBarrier, kAtWarpBarrier, kFinished };

  struct Thread {
    State state = State::kNotBegun;
    unsigned mask = 0;  // at a warp barrier
    Site site;
    bool orders_memory = false;
    Context* fiber = nullptr;
  };

  [[noreturn]] static void fail(const std::string& what) {
    const std::string kernel = check::kernel_name();
    throw std::runtime_error("CUDA emulation: " + (kernel.empty() ? "" : kernel + ": ") + what);
  }

  static void require_possible(dim3 grid, dim3 block, size_t shared_bytes) {
    const size_t threads = size_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > 1024 || block.z > 64) fail("invalid block size");
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) fail("empty grid");
    if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) fail("grid too large");
    if (shared_bytes > kMaxSharedBytes) fail("too much shared memory");
  }

  void run_block() {
    for (Thread& thread : threads_) thread = Thread{};
    next_ = 0;
    finished_ = 0;
    backwards_ = !backwards_;
    if (random_ != 0) draw_order(&order_, threads_.size());
    while (finished_ < threads_.size()) {
      if (next_ < threads_.size()) {
        switch_to(take_fiber());
        continue;
      }
      if (!release()) fail(deadlock());
      if (random_ != 0) draw_order(&order_, threads_.size());
      for (size_t i = 0; i < threads_.size(); ++i) {
        const size_t thread = in_order(i);
        if (threads_[thread].state != State::kRunning) continue;
        running_ = threads_[thread].fiber;
        enter(thread);
        switch_to(running_);
      }
    }
  }

  // Every other block runs its threads from the last to the first: what is right in one order only
  // lacks a barrier.
  size_t in_order(size_t i) const {
    if (random_ != 0) return order_[i];
    return backwards_ ? threads_.size() - 1 - i : i;
  }

  // A random permutation (xorshift64*, Fisher-Yates).
  void draw_order(std::vector<size_t>* order, size_t count) {
    order->resize(count);
    for (size_t i = 0; i < count; ++i) {
      random_ ^= random_ >> 12;
      random_ ^= random_ << 25;
      random_ ^= random_ >> 27;
      const size_t j = (random_ * 0x2545f4914f6cdd1dull >> 33) % (i + 1);
      (*order)[i] = (*order)[j];
      (*order)[j] = i;
    }
  }

  // Sets running whoever waits for nobody any more.
  VISOPS_UNCHECKED bool release() {
    Thread* const threads = threads_.data();
    const size_t count = threads_.size();
    size_t at_block_barrier = 0;
    for (size_t i = 0; i < count; ++i) {
      at_block_barrier +=
          threads[i].state == State::kAtBlockBarrier && threads[i].site == threads[0].site;
    }
    if (at_block_barrier == count) {
      for (size_t i = 0; i < count; ++i) threads[i].state = State::kRunning;
      check::order_block();
      return true;
    }
    bool any = false;
    for (size_t i = 0; i < count; ++i) {
      if (threads[i].state != State::kPaused) continue;
      threads[i].state = State::kRunning;
      any = true;
    }
    for (size_t first = 0; first < count; first += 32) {
      const unsigned lanes = static_cast<unsigned>(count - first < 32 ? count - first : 32);
      any = release_warp(threads + first, lanes, static_cast<unsigned>(first / 32)) || any;
    }
    return any;
  }

  VISOPS_UNCHECKED static bool release_warp(Thread* warp, unsigned lanes, unsigned number) {
    unsigned alive = 0, waiting = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      alive |= unsigned{warp[lane].state != State::kFinished} << lane;
      waiting |= unsigned{warp[lane].state == State::kAtWarpBarrier} << lane;
    }
    bool any = false;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (!(waiting >> lane & 1)) continue;
      const Thread& one = warp[lane];
      if (!(one.mask >> lane & 1)) fail("a thread is not in the mask it passes");
      unsigned arrived = 0;
      for (unsigned other = lane; other < lanes; ++other) {
        const bool with_it =
            (waiting >> other & 1) && warp[other].mask == one.mask && warp[other].site == one.site;
        arrived |= unsigned{with_it} << other;
      }
      waiting &= ~arrived;
      if (arrived != (one.mask & alive)) continue;
      if (one.orders_memory) check::order_warp(number, arrived);
      for (unsigned other = lane; other < lanes; ++other) {
        if (arrived >> other & 1) warp[other].state = State::kRunning;
      }
      any = true;
    }
    return any;
  }

  std::string deadlock() const {
    size_t waiting = 0;
    for (const Thread& thread : threads_) waiting += thread.state == State::kAtBlockBarrier;
    if (waiting == 0) return "a warp barrier never sees all threads of its mask" + sites();
    if (finished_ > 0) {
      return std::to_string(finished_) + " threads of a block have left while " +
             std::to_string(waiting) + " wait in __syncthreads" + sites();
    }
    return "threads of a block wait at different barriers" + sites();
  }

  // A thread for each place where some wait.
  std::string sites() const {
    std::vector<Site> told;
    std::string text;
    for (size_t i = 0; i < threads_.size(); ++i) {
      const Thread& thread = threads_[i];
      if (thread.state == State::kFinished) continue;
      if (std::find(told.begin(), told.end(), thread.site) != told.end()) continue;
      told.push_back(thread.site);
      text += (told.size() == 1 ? ": thread " : ", thread ") + std::to_string(i) + " at " +
              thread.site.text();
    }
    return text;
  }

  void wait(State state, unsigned mask, Site site, bool orders_memory) {
    check::Quiet quiet;
    Thread& me = threads_[current_];
    me.state = state;
    me.mask = mask;
    me.site = site;
    me.orders_memory = orders_memory;
    me.fiber = running_;
    running_->leave_for(&home_);
  }

  void enter(size_t i) {
    const dim3 size = here().block_size;
    const unsigned linear = static_cast<unsigned>(i);
    current_ = linear;
    threads_[i].state = State::kRunning;
    here().thread = {linear % size.x, linear / size.x % size.y, linear / size.x / size.y};
    check::enter_thread(linear, running_->stack(), kStackBytes);
  }

  void switch_to(Context* fiber) {
    running_ = fiber;
    home_.leave_for(fiber);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  Context* take_fiber() {
    if (idle_.empty()) {
      fibers_.push_back(std::make_unique<Context>());
      idle_.push_back(fibers_.back().get());
      idle_.back()->make(&Scheduler::fiber_main);
    }
    Context* fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }

  static void fiber_main();

  // An exception must not unwind past the fiber's first frame: it is handed to the scheduler.
  void run_threads() {
    while (next_ < threads_.size() && !error_) {
      enter(in_order(next_++));
      try {
        (*body_)();
      } catch (...) {
        error_ = std::current_exception();
      }
      check::set_active(false);
      threads_[current_].state = State::kFinished;
      ++finished_;
    }
    idle_.push_back(running_);
    running_->leave_for(&home_);
  }

  std::vector<Thread> threads_;
  std::vector<unsigned long long> slots_;  // what shuffles exchange, one per thread
  std::vector<unsigned char> shared_;      // dynamic shared memory
  std::vector<std::unique_ptr<Context>> fibers_;
  std::vector<Context*> idle_;
  const std::function<void()>* body_ = nullptr;
  std::exception_ptr error_;
  Context home_;
  Context* running_ = nullptr;
  size_t current_ = 0, next_ = 0, finished_ = 0;
  bool backwards_ = true;
  uint64_t random_ = 0;        // 0: no random order
  std::vector<size_t> order_;  // of threads
};

inline Scheduler& scheduler() {
  static thread_local Scheduler value;
  return value;
}

inline void Scheduler::fiber_main() {
  for (;;) scheduler().run_threads();
}

}  // namespace cuda_emulation
