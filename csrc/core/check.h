// Errors and checked arithmetic, for fronts and core/*.cpp. Kernel files never throw.
//
// Every message reads `visops.<op>: <argument> <what came>, <what is allowed>`.
#pragma once

#include <cstdint>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

#include "core/element.h"

namespace visops {

// Python sees RuntimeError through the dispatcher, and ValueError through pybind11 (bindings.cpp).
class InvalidArgument : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void fail(const char* op, const Parts&... parts) {
  std::ostringstream message;
  message << "visops." << op << ": ";
  (message << ... << parts);
  throw InvalidArgument(message.str());
}

template <class... Parts>
void require(bool condition, const char* op, const Parts&... parts) {
  if (!condition) fail(op, parts...);
}

const char* dtype_name(DType dtype);

// "[2, 3]"
template <class Container>
std::string shape_text(const Container& sizes) {
  std::ostringstream text;
  text << '[';
  bool first = true;
  for (const auto size : sizes) {
    text << (first ? "" : ", ") << size;
    first = false;
  }
  text << ']';
  return text.str();
}

// a * b for sizes, or the largest int64 where that would overflow. 0 for a negative size: whatever
// is computed from it, its own check refuses it.
inline int64_t saturating_product(int64_t a, int64_t b) {
  if (a <= 0 || b <= 0) return 0;
  const int64_t most = std::numeric_limits<int64_t>::max();
  return a > most / b ? most : a * b;
}

}  // namespace visops
