// What tests/cuda_on_cpu/test_barriers.py asks of the checks, through ctypes.
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "check.h"
#include "core/platform.h"

namespace cuda_emulation::check {
namespace {

std::mutex mutex;
std::set<std::pair<std::string, int>> reached;
std::pair<const char*, int> last{nullptr, 0};
std::string skipped_file;
int skipped_line = 0;

}  // namespace

bool is_skipped(const char* file, int line) {
  const Quiet quiet;
  if (file != last.first || line != last.second) {
    const std::lock_guard<std::mutex> lock(mutex);
    reached.emplace(file, line);
    last = {file, line};
  }
  return line == skipped_line && skipped_file == file;
}

}  // namespace cuda_emulation::check

// Barriers at this place do nothing from here on; line 0: all do what they should.
extern "C" VISOPS_API void visops_skip_barrier(const char* file, int line) {
  cuda_emulation::check::skipped_file = file;
  cuda_emulation::check::skipped_line = line;
}

// The places of all barriers that threads came to since the last call, one a line.
extern "C" VISOPS_API const char* visops_take_barriers() {
  using namespace cuda_emulation::check;
  static std::string text;
  const std::lock_guard<std::mutex> lock(mutex);
  text.clear();
  for (const auto& [file, line] : reached) text += file + ":" + std::to_string(line) + "\n";
  reached.clear();
  last = {nullptr, 0};
  return text.c_str();
}
