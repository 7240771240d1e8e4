#include "parts.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace cuda_emulation::check {
namespace {

std::string offset_text(const void* where) {
  // The call itself, not what follows.
  const uintptr_t offset = reinterpret_cast<uintptr_t>(where) - program_base() - 1;
  char text[32];
  std::snprintf(text, sizeof(text), "0x%zx", static_cast<size_t>(offset));
  return text;
}

void replace(std::string* text, const char* what, const std::string& by) {
  const size_t i = text->find(what);
  if (i != std::string::npos) text->replace(i, std::strlen(what), by);
}

}  // namespace

std::map<const void*, std::string> positions_of(const std::vector<const void*>& addresses) {
  std::map<const void*, std::string> positions;
  std::string command = "addr2line -e '" + program_file() + "'";
  for (const void* address : addresses) {
    positions[address] = "code at " + offset_text(address);
    command += " " + offset_text(address);
  }
  FILE* output = popen((command + " 2>/dev/null").c_str(), "r");
  if (output == nullptr) return positions;
  char line[4096];
  for (const void* address : addresses) {
    if (std::fgets(line, sizeof(line), output) == nullptr) break;
    std::string text(line, std::strcspn(line, "\n"));
    text = text.substr(0, text.find(" (discriminator"));
    if (text.rfind("??", 0) != 0) positions[address] = short_path(text);
  }
  pclose(output);
  return positions;
}

std::string short_path(const std::string& path) {
  for (const char* root : {"csrc/", "tests/"}) {
    const size_t i = path.rfind(root);
    if (i != std::string::npos) return path.substr(i);
  }
  return path.substr(path.rfind('/') + 1);
}

std::string position_text(unsigned x, unsigned y, unsigned z) {
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

const char* verb(unsigned kind) {
  const bool atomic = kind & kAtomic;
  if ((kind & kWrite) && (kind & kRead)) return "changes, atomically,";
  if (kind & kWrite) return atomic ? "writes, atomically," : "writes";
  return atomic ? "reads, atomically," : "reads";
}

void throw_or_log(const std::string& text) {
  const char* file = std::getenv("VISOPS_CUDA_CHECK_LOG");
  FILE* out = file == nullptr ? nullptr : std::fopen(file, "a");
  if (out == nullptr) throw std::runtime_error(text);
  std::fprintf(out, "%s\n", text.c_str());
  std::fclose(out);
}

std::string describe(const std::string& kernel, const std::vector<Finding>& findings) {
  std::vector<const void*> addresses;
  for (const Finding& finding : findings) {
    if (finding.where != nullptr) addresses.push_back(finding.where);
    if (finding.before != nullptr) addresses.push_back(finding.before);
  }
  std::map<const void*, std::string> positions;
  const std::string unseen =
      "a place that GCC tells nothing of, where a function's result is stored";
  if (!addresses.empty()) positions = positions_of(addresses);
  std::string all;
  for (const Finding& finding : findings) {
    std::string text = finding.text;
    const auto position = [&](const void* at) { return at == nullptr ? unseen : positions[at]; };
    replace(&text, "%1", position(finding.where));
    replace(&text, "%2", position(finding.before));
    all +=
        (all.empty() ? "" : "\n") + ("CUDA check: " + kernel) + ": " + finding.what + ": " + text;
  }
  return all;
}

}  // namespace cuda_emulation::check
