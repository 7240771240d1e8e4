// Errors and checked arithmetic, for fronts and core/*.cpp. Kernel files never throw.
//
// Every message reads `visops.<op>: <argument> <what came>, <what is allowed>`.
#pragma once

#include <cstdint>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

#include "core/numbers/element.h"

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

// A shape as errors print it: "[2, 3]". It refers to `sizes` and becomes text only where a message
// is written, so a check that passes costs nothing.
template <class Container>
struct ShapeText {
  const Container& sizes;

  operator std::string() const {
    std::ostringstream text;
    text << *this;
    return text.str();
  }
};

template <class Container>
std::ostream& operator<<(std::ostream& out, const ShapeText<Container>& shape) {
  const char* separator = "";
  out << '[';
  for (const auto size : shape.sizes) {
    out << separator << size;
    separator = ", ";
  }
  return out << ']';
}

template <class Container>
ShapeText<Container> shape_text(const Container& sizes) {
  return {sizes};
}

// a * b for sizes, or the largest int64 where that would overflow. 0 for a negative size: whatever
// is computed from it, its own check refuses it.
inline int64_t saturating_product(int64_t a, int64_t b) {
  if (a <= 0 || b <= 0) return 0;
  const int64_t most = std::numeric_limits<int64_t>::max();
  return a > most / b ? most : a * b;
}

}  // namespace visops
