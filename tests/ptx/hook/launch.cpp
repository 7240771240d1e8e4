// What the emulation calls instead of a kernel: finds its PTX, and runs that.
//
// VISOPS_PTX_DIR: the folder of the PTX files (needed)
// VISOPS_PTX_MODE: "ptx" (the default), "emulated" (as if this were not here), or "both": runs the
//   PTX, undoes it, runs the kernel of the C++ compiler, and reports words that differ
// VISOPS_PTX_NAN: "host" gives NaN the bits that the host's processor gives it, not 0x7fffffff
// VISOPS_PTX_LOG: a file for findings that don't end a launch; stderr by default
// VISOPS_PTX_STATS: a folder: every process leaves a file there, of its launches and counts
// VISOPS_PTX_CHECK: 1 follows which registers and shared bytes have values, and reports where a
//   branch, an address or global memory is given one that has none
// VISOPS_PTX_COUNT: 1 counts instructions by class, sectors and bank conflicts as well
#include "launch.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "registry.h"

namespace ptx {
namespace {

// A load or store that the system refuses.
thread_local sigjmp_buf* refused = nullptr;
thread_local void* refused_at = nullptr;
struct sigaction segv_before, bus_before;

void on_signal(int number, siginfo_t* info, void*) {
  if (refused != nullptr) {
    refused_at = info->si_addr;
    siglongjmp(*refused, 1);
  }
  sigaction(number, number == SIGSEGV ? &segv_before : &bus_before, nullptr);
}

void catch_signals() {
  static const bool done = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &segv_before);
    sigaction(SIGBUS, &action, &bus_before);
    return true;
  }();
  static_cast<void>(done);
}

// Launches where a bad address ends in an error.
void run_guarded(Launch& launch) {
  catch_signals();
  sigjmp_buf jump;
  sigjmp_buf* const before = refused;
  if (sigsetjmp(jump, 1) != 0) {
    refused = before;
    char text[64];
    std::snprintf(text, sizeof(text), "the system refuses the address %p", refused_at);
    const int line = launch.now == nullptr ? 0 : launch.now->line;
    throw Error(launch.kernel->plain_name + ": " + stem(launch.kernel->file) +
                ".ptx:" + std::to_string(line) + ": block (" + std::to_string(launch.here[0]) +
                "," + std::to_string(launch.here[1]) + "," + std::to_string(launch.here[2]) +
                "): " + text);
  }
  refused = &jump;
  try {
    run(launch);
  } catch (...) {
    refused = before;
    throw;
  }
  refused = before;
}

void check_launch(const VisopsPtxLaunch& what, const Kernel& kernel, const Launch& launch) {
  const std::vector<Parameter>& formal = kernel.function.parameters;
  if (formal.size() != what.parameter_count)
    throw Error(kernel.plain_name + ": another number of parameters");
  for (size_t i = 0; i < formal.size(); ++i) {
    if (formal[i].bytes != what.sizes[i] || formal[i].offset != what.offsets[i]) {
      throw Error(kernel.plain_name + ": parameter " + std::to_string(i) + " has " +
                  std::to_string(formal[i].bytes) + " bytes at " +
                  std::to_string(formal[i].offset) + " in PTX, " + std::to_string(what.sizes[i]) +
                  " at " + std::to_string(what.offsets[i]) + " in C++");
    }
  }
  const size_t threads = size_t{what.block[0]} * what.block[1] * what.block[2];
  if (threads == 0 || threads > 1024 || what.block[2] > 64)
    throw Error(kernel.plain_name + ": an invalid size of blocks");
  if (kernel.function.max_threads != 0 &&
      threads > static_cast<size_t>(kernel.function.max_threads)) {
    throw Error(kernel.plain_name + ": " + std::to_string(threads) +
                " threads, and .maxntid allows " + std::to_string(kernel.function.max_threads));
  }
  if (what.grid[0] > 2147483647u || what.grid[1] > 65535 || what.grid[2] > 65535)
    throw Error(kernel.plain_name + ": a grid beyond CUDA's limits");
  if (launch.shared_bytes > 48 * 1024)
    throw Error(kernel.plain_name + ": " + std::to_string(launch.shared_bytes) +
                " bytes of shared memory, beyond 48 KB");
  if (what.parameter_bytes > 32764)
    throw Error(kernel.plain_name + ": more than 32 KB of parameters");
}

// Words that the PTX wrote, and what is there after the C++ compiler's kernel.
void compare(const VisopsPtxLaunch& what, Launch& launch) {
  std::unordered_map<uint64_t, uint64_t> before;
  launch.before = &before;
  run_guarded(launch);
  std::map<uint64_t, uint64_t> after;
  for (const auto& [word, value] : before) {
    uint64_t now;
    void* const at = reinterpret_cast<void*>(word * 8);
    std::memcpy(&now, at, sizeof(now));
    after[word] = now;
    std::memcpy(at, &value, sizeof(value));
  }
  what.emulated(what.emulated_of);
  size_t different = 0;
  std::string first;
  for (const auto& [word, value] : after) {
    uint64_t now;
    std::memcpy(&now, reinterpret_cast<const void*>(word * 8), sizeof(now));
    if (now == value) continue;
    char text[96];
    std::snprintf(text, sizeof(text), "%016llx by PTX, %016llx by C++",
                  static_cast<unsigned long long>(value), static_cast<unsigned long long>(now));
    if (different++ == 0) first = text;
  }
  if (different != 0) {
    log_line(launch.kernel->plain_name + ": " + std::to_string(different) + " of " +
             std::to_string(after.size()) + " words differ, the first: " + first);
  }
}

}  // namespace

// With lib/libptx_guard.so loaded first, accesses must be within what was allocated.
void check_global(const Warp& w, const Instruction& i, int lane, uint64_t address, size_t bytes,
                  bool writes) {
  using Bounds = bool (*)(uintptr_t, uintptr_t*, uintptr_t*, uintptr_t*, uintptr_t*);
  static const Bounds bounds = reinterpret_cast<Bounds>(dlsym(RTLD_DEFAULT, "visops_ptx_bounds"));
  if (bounds == nullptr) return;
  struct Known {
    uintptr_t begin, end, from, to;
  };
  constexpr size_t kCount = 64;  // a few, by what an instruction found last
  static thread_local Known known[kCount];
  static thread_local uint64_t launch = 0;
  if (launch != w.launch->serial) {
    launch = w.launch->serial;
    std::memset(known, 0, sizeof(known));
  }
  Known& k = known[i.number % kCount];
  if (address < k.from || address >= k.to) {
    if (!bounds(address, &k.begin, &k.end, &k.from, &k.to)) {
      k = {};
      return;  // not torch's
    }
  }
  if (address < k.begin || address + bytes > k.end) {
    fail(w, i, lane,
         std::string("a ") + (writes ? "write" : "read") + " of " + std::to_string(bytes) +
             " bytes at offset " + std::to_string(static_cast<int64_t>(address - k.begin)) +
             " of memory of " + std::to_string(k.end - k.begin) + " bytes");
  }
}

void log_line(const std::string& text) {
  static std::mutex mutex;
  static FILE* const file = [] {
    const std::string path = environment("VISOPS_PTX_LOG");
    return path.empty() ? stderr : std::fopen(path.c_str(), "a");
  }();
  if (file == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(file, "PTX: %s\n", text.c_str());
  std::fflush(file);
}

}  // namespace ptx

std::string visops_ptx_launch(const VisopsPtxLaunch& what) {
  using namespace ptx;
  static const std::string mode = environment("VISOPS_PTX_MODE");
  static const bool counts = environment("VISOPS_PTX_COUNT") == "1";
  static const bool checks = environment("VISOPS_PTX_CHECK") == "1";
  if (mode == "emulated") {
    what.emulated(what.emulated_of);
    return "";
  }
  try {
    Kernel& kernel = registry().find(what.kernel);
    Launch launch;
    launch.kernel = &kernel;
    std::copy(what.grid, what.grid + 3, launch.grid);
    std::copy(what.block, what.block + 3, launch.block);
    launch.parameters = what.parameters;
    launch.parameter_bytes = kernel.function.parameter_bytes;
    launch.shared_bytes =
        what.shared_bytes == 0 ? kernel.shared_bytes : kernel.dynamic_at + what.shared_bytes;
    Touched touched;
    launch.counts = counts;
    launch.touched = &touched;
    launch.checks = checks;
    static std::atomic<uint64_t> serial{0};
    launch.serial = ++serial;
    launch.random = what.seed;
    check_launch(what, kernel, launch);
    if (kernel.launches++ == 0) write_first_launch(kernel);
    kernel.threads += uint64_t{what.grid[0]} * what.grid[1] * what.grid[2] * what.block[0] *
                      what.block[1] * what.block[2];
    if (mode == "both") {
      compare(what, launch);
    } else {
      run_guarded(launch);
    }
    kernel.touched += touched.bytes();
    kernel.longest += launch.longest;
    return "";
  } catch (const Error& error) {
    log_line(std::string("ERROR ") + error.what());
    return error.what();
  }
}

// Decodes every kernel of a folder: what a program does that is linked with this file alone.
extern "C" __attribute__((visibility("default"))) int visops_ptx_check_all() {
  int failures = 0, kernels = 0;
  for (const auto& [key, known] : ptx::registry().all()) {
    try {
      ptx::decode(known.module->parse(*known.entry));
      ++kernels;
    } catch (const std::exception& error) {
      ++failures;
      std::printf("%s: %s\n", key.c_str(), error.what());
    }
  }
  std::printf("%d kernels decoded, %d failures\n", kernels, failures);
  return failures;
}
