// Names of kernels: nvcc's, the C++ compiler's, and those that people read.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace ptx {

// An anonymous namespace is named after its file by nvcc, and not by g++.
std::string canonical_name(const std::string& mangled);
// The file that a kernel is from: "roi.align_kernel.ptx" and "align_kernel.cu" both give
// "align_kernel".
std::string stem(std::string file);
std::string demangle(const std::string& name);

// Functions of a shared library by their addresses: "stem canonical_name".
class Symbols {
 public:
  explicit Symbols(const std::string& path);
  const std::string* at(uint64_t offset) const;

 private:
  std::unordered_map<uint64_t, std::string> all_;
};

}  // namespace ptx
