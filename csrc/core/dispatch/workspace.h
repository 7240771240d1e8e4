// What a kernel may ask of the front that runs it: scratch memory and a parallel loop. Free of
// torch, so that kernels plan their own work without knowing who called them.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {

class Workspace {
 public:
  // Uninitialised memory where the kernel runs, aligned to 64 bytes, for the length of the call.
  // Throws, naming the operator, where memory runs out.
  virtual void* allocate(int64_t bytes) = 0;

  // The CPU threads that a parallel loop has.
  virtual int64_t threads() const = 0;

  // body(context, begin, end) for parts of [0, count), each of `grain` items or more. CPU only.
  virtual void for_each_part(int64_t count, int64_t grain,
                             void (*body)(void* context, int64_t begin, int64_t end),
                             void* context) = 0;

  // A cudaStream_t; null on the CPU and under emulation.
  virtual void* stream() const = 0;

 protected:
  ~Workspace() = default;  // nobody deletes one through this class
};

template <class T>
static inline T* allocate(Workspace& workspace, int64_t count) {
  return static_cast<T*>(workspace.allocate(count * static_cast<int64_t>(sizeof(T))));
}

// body(begin, end) in parallel; `count` and `grain` as above. What fits one task is called
// directly: handing it to a thread pool takes some microseconds.
template <class Body>
static inline void parallel_for(Workspace& workspace, int64_t count, int64_t grain,
                                const Body& body) {
  if (count <= grain) return body(0, count);
  const auto call = [](void* context, int64_t begin, int64_t end) {
    (*static_cast<const Body*>(context))(begin, end);
  };
  workspace.for_each_part(count, grain, call, const_cast<Body*>(&body));
}

// How large results get their pages.

// Asks for large pages for new memory.
void prefer_large_pages(void* data, int64_t bytes);

}  // namespace visops
