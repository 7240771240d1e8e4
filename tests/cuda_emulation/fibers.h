// The threads of an emulated CUDA block, as fibers of one host thread.
//
// A fiber runs thread after thread of the block until one of them has to wait; that thread then
// keeps the fiber, and another fiber goes on with the threads not yet begun. So a kernel without
// barriers runs as a plain loop, and only threads that wait cost a switch and a stack. Fibers are
// kept from block to block and from launch to launch. Blocks alternate between running their
// threads upwards and downwards, so that a missing barrier shows.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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
  void launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body) {
    check(grid, block, shared_bytes);
    here().grid_size = grid;
    here().block_size = block;
    threads_.assign(size_t{block.x} * block.y * block.z, Thread{});
    slots_.assign((threads_.size() + 31) / 32 * 32, 0);
    body_ = &body;
    try {
      uint3& at = here().block;
      for (at.z = 0; at.z < grid.z; ++at.z) {
        for (at.y = 0; at.y < grid.y; ++at.y) {
          for (at.x = 0; at.x < grid.x; ++at.x) {
            shared_.assign(shared_bytes, static_cast<unsigned char>(0xcd));
            run_block();
          }
        }
      }
    } catch (...) {
      fibers_.clear();  // some are stuck inside a thread
      idle_.clear();
      throw;
    }
  }

  // For kernels.
  void sync_block(int line) { wait(State::kAtBlockBarrier, static_cast<unsigned>(line)); }
  void sync_warp(unsigned mask) { wait(State::kAtWarpBarrier, mask); }
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
  enum class State { kNotBegun, kRunning, kAtBlockBarrier, kAtWarpBarrier, kFinished };

  struct Thread {
    State state = State::kNotBegun;
    unsigned where = 0;  // at a block barrier its line, at a warp barrier its mask
    Context* fiber = nullptr;
  };

  [[noreturn]] static void fail(const std::string& what) {
    throw std::runtime_error("CUDA emulation: " + what);
  }

  static void check(dim3 grid, dim3 block, size_t shared_bytes) {
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
    while (finished_ < threads_.size()) {
      if (next_ < threads_.size()) {
        switch_to(take_fiber());
        continue;
      }
      if (!release()) fail(deadlock());
      for (size_t i = 0; i < threads_.size(); ++i) {
        const size_t thread = in_order(i);
        if (threads_[thread].state != State::kRunning) continue;
        enter(thread);
        switch_to(threads_[thread].fiber);
      }
    }
  }

  // Every other block runs its threads from the last to the first: what is right in one order only
  // lacks a barrier.
  size_t in_order(size_t i) const { return backwards_ ? threads_.size() - 1 - i : i; }

  // Sets running whoever waits for nobody any more.
  bool release() {
    size_t at_block_barrier = 0;
    for (const Thread& thread : threads_) {
      at_block_barrier +=
          thread.state == State::kAtBlockBarrier && thread.where == threads_[0].where;
    }
    if (at_block_barrier == threads_.size()) {
      for (Thread& thread : threads_) thread.state = State::kRunning;
      return true;
    }
    std::vector<size_t> complete;
    for (size_t i = 0; i < threads_.size(); ++i) {
      if (threads_[i].state == State::kAtWarpBarrier && warp_has_arrived(i)) complete.push_back(i);
    }
    for (size_t i : complete) threads_[i].state = State::kRunning;
    return !complete.empty();
  }

  bool warp_has_arrived(size_t i) const {
    const unsigned mask = threads_[i].where;
    if (!(mask >> (i % 32) & 1)) fail("a thread is not in the mask it passes");
    for (size_t lane = 0; lane < 32; ++lane) {
      const size_t other = i / 32 * 32 + lane;
      if (!(mask >> lane & 1) || other >= threads_.size()) continue;
      const Thread& thread = threads_[other];
      if (thread.state == State::kFinished) continue;
      if (thread.state != State::kAtWarpBarrier || thread.where != mask) return false;
    }
    return true;
  }

  std::string deadlock() const {
    size_t waiting = 0;
    for (const Thread& thread : threads_) waiting += thread.state == State::kAtBlockBarrier;
    if (waiting == 0) return "a warp barrier never sees all threads of its mask";
    if (finished_ > 0) {
      return std::to_string(finished_) + " threads of a block have left while " +
             std::to_string(waiting) + " wait in __syncthreads";
    }
    return "threads of a block wait at different barriers";
  }

  void wait(State state, unsigned where) {
    const size_t me = current_;
    threads_[me].state = state;
    threads_[me].where = where;
    threads_[me].fiber = running_;
    running_->leave_for(&home_);
  }

  void enter(size_t i) {
    const dim3 size = here().block_size;
    const unsigned linear = static_cast<unsigned>(i);
    current_ = linear;
    threads_[i].state = State::kRunning;
    here().thread = {linear % size.x, linear / size.x % size.y, linear / size.x / size.y};
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
};

inline Scheduler& scheduler() {
  static thread_local Scheduler value;
  return value;
}

inline void Scheduler::fiber_main() {
  for (;;) scheduler().run_threads();
}

}  // namespace cuda_emulation
