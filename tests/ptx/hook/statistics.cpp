// What kernels have run, as text: tests/ptx/report.py reads it.
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "registry.h"

namespace ptx {
namespace {

// Counts of each class and operation, lines of PTX that were never executed, and lines where shared
// memory takes more passes than it must: line, accesses, passes, the fewest.
void describe_counts(const Kernel& kernel, std::ostream& out) {
  Counts by_class[static_cast<int>(Class::kCount)];
  std::map<std::string, uint64_t> by_operation;
  std::ostringstream never, banks;
  for (size_t n = 0; n < kernel.counts.size(); ++n) {
    const Counts& one = kernel.counts[n];
    const Class kind = kernel.class_of_number[n];
    by_class[static_cast<int>(kind)].add(one);
    if (one.issues == 0) {
      never << ' ' << kernel.line_of_number[n];
      continue;
    }
    by_operation[kernel.operations[n]] += one.issues;
    const bool is_shared = kind == Class::kLoadShared || kind == Class::kStoreShared;
    if (is_shared && 4 * (one.units - one.least) > one.issues) {
      banks << "banks\t" << kernel.line_of_number[n] << '\t' << one.issues << '\t' << one.units
            << '\t' << one.least << '\n';
    }
  }
  for (int n = 0; n < static_cast<int>(Class::kCount); ++n) {
    const Counts& sum = by_class[n];
    if (sum.issues == 0) continue;
    out << "class\t" << kClassNames[n] << '\t' << sum.issues << '\t' << sum.lanes << '\t'
        << sum.units << '\t' << sum.least << '\t' << sum.lines << '\t' << sum.bytes << '\n';
  }
  out << "never\t" << never.str() << '\n';
  for (const auto& [operation, issues] : by_operation)
    out << "op\t" << operation << '\t' << issues << '\n';
  out << banks.str();
}

std::string file_of(const Kernel& kernel) { return kernel.file.substr(kernel.file.rfind('/') + 1); }

std::ofstream open_statistics() {
  const std::string name = environment("VISOPS_PTX_STATS") + "/" + std::to_string(getpid());
  return std::ofstream(name + ".txt", std::ios::app);
}

// A line a kernel: file, name, launches, threads, instructions, bytes of local memory, of shared
// memory, touched, and the longest warp's instructions; then its counts.
std::string describe(const Registry& registry) {
  const bool counts = environment("VISOPS_PTX_COUNT") == "1";
  std::ostringstream out;
  for (const auto& [key, known] : registry.all()) {
    if (known.kernel == nullptr || known.kernel->launches == 0) continue;
    const Kernel& k = *known.kernel;
    out << "kernel\t" << file_of(k) << '\t' << k.name << '\t' << k.plain_name << '\t' << k.launches
        << '\t' << k.threads << '\t' << k.counts.size() << '\t' << k.local_bytes << '\t'
        << k.shared_bytes << '\t' << k.touched << '\t' << k.longest << '\n';
    if (counts) describe_counts(k, out);
  }
  return out.str();
}

}  // namespace

void write_first_launch(const Kernel& kernel) {
  if (environment("VISOPS_PTX_STATS").empty()) return;
  open_statistics() << "ran\t" << file_of(kernel) << '\t' << kernel.name << '\n';
}

void write_statistics(const Registry& registry) { open_statistics() << describe(registry); }

}  // namespace ptx

// What has run since the last call.
extern "C" __attribute__((visibility("default"))) const char* visops_ptx_take_statistics() {
  static std::string text;
  text = ptx::describe(ptx::registry());
  for (const auto& [key, known] : ptx::registry().all()) {
    if (known.kernel == nullptr) continue;
    ptx::Kernel& kernel = *known.kernel;
    kernel.launches = kernel.threads = kernel.touched = kernel.longest = 0;
    kernel.counts.assign(kernel.counts.size(), ptx::Counts());
  }
  return text.c_str();
}
