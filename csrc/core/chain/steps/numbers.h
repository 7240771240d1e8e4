// What the files of a chain's steps share.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/chain/step.h"

namespace visops {

constexpr double kPi = 3.14159265358979323846;

// Those of the C library that Python's math module calls. A compiler that sees both cos(x) and
// sin(x) would call sincos(x) instead, which need not round alike.
using ElementaryFunction = double (*)(double);
static const volatile ElementaryFunction cosine = std::cos, sine = std::sin, exponential = std::exp;

// Reads fields of what `owner` says. Throws std::invalid_argument for one that is missing or has
// another count of numbers, and in finish() for one that it doesn't have.
class FieldReader {
 public:
  FieldReader(std::string owner, const StepFields& fields)
      : owner_(std::move(owner)), fields_(fields) {}

  bool has(const std::string& name) const { return fields_.count(name) > 0; }
  const std::vector<double>& list(const std::string& name) {
    const auto found = fields_.find(name);
    if (found == fields_.end()) refuse("has no '" + name + "'");
    read_.insert(name);
    return found->second;
  }
  const std::vector<double>& list(const std::string& name, size_t count) {
    const std::vector<double>& found = list(name);
    if (found.size() != count) {
      refuse("has " + std::to_string(found.size()) + " numbers as '" + name + "', must have " +
             std::to_string(count));
    }
    return found;
  }
  double number(const std::string& name) { return list(name, 1)[0]; }
  bool flag(const std::string& name) { return number(name) != 0.0; }
  int64_t whole(const std::string& name) { return static_cast<int64_t>(number(name)); }
  template <int kCount>
  void numbers(const std::string& name, double (&out)[kCount]) {
    std::copy_n(list(name, kCount).begin(), kCount, out);
  }
  Canvas size(const std::string& name) {
    const std::vector<double>& found = list(name, 2);
    return {found[0], found[1]};
  }
  void finish() const {
    for (const auto& [name, values] : fields_) {
      if (read_.count(name) == 0) refuse("takes no '" + name + "'");
    }
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument("visops.transforms: " + owner_ + " " + why);
  }

 private:
  std::string owner_;
  const StepFields& fields_;
  std::set<std::string> read_;
};

}  // namespace visops
