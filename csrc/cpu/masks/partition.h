// How masks are shared among threads.
#pragma once

#include <cstdint>

#include "core/dispatch/workspace.h"
#include "core/platform.h"

namespace visops {
namespace {

constexpr int64_t kTaskPixels = 65536;  // fewer cost more to hand out than they save

// `tasks`, but at least 1 and at most `limit`.
inline int64_t tasks_within(int64_t limit, int64_t tasks) {
  const int64_t least = tasks > 1 ? tasks : 1;
  return least < limit ? least : limit;
}

// How many tasks share `count` masks.
inline int64_t mask_tasks(int64_t count, int64_t height, int64_t width, Workspace& workspace) {
  const int64_t limit = count < workspace.threads() ? count : workspace.threads();
  return tasks_within(limit, count * (height * width / kTaskPixels + 1));
}

// How many tasks share the rows of a mask where masks go one after another; 1 where it is better
// to give each task whole masks.
inline int64_t mask_bands(int64_t count, int64_t height, int64_t width, Workspace& workspace) {
  if (count >= workspace.threads()) return 1;
  const int64_t limit = height < workspace.threads() ? height : workspace.threads();
  return tasks_within(limit, height * width / kTaskPixels);
}

// Calls body(task, begin, end) for the masks of each task, which are adjacent.
template <class Body>
void for_each_task(int64_t count, int64_t tasks, Workspace& workspace, const Body& body) {
  parallel_for(workspace, tasks, 1, [&](int64_t first, int64_t last) {
    body(first, count * first / tasks, count * last / tasks);
  });
}

template <class Body>
VISOPS_NOINLINE void call_task(const Body& body, int64_t task, int64_t begin, int64_t end) {
  body(task, begin, end);
}

// The same for a long body. parallel_for calls its body in two places: here it is compiled once,
// which halves the largest kernels.
template <class Body>
void for_each_long_task(int64_t count, int64_t tasks, Workspace& workspace, const Body& body) {
  for_each_task(count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    call_task(body, task, begin, end);
  });
}

}  // namespace
}  // namespace visops
