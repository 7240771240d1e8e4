// What the files of a chain's steps share.
#pragma once

#include <cmath>
#include <vector>

namespace visops {

constexpr double kPi = 3.14159265358979323846;

// Those of the C library that Python's math module calls. A compiler that sees both cos(x) and
// sin(x) would call sincos(x) instead, which need not round alike.
using ElementaryFunction = double (*)(double);
static const volatile ElementaryFunction cosine = std::cos, sine = std::sin, exponential = std::exp;

// Reads a step's numbers one after another; make_step() has checked how many there are.
class Reader {
 public:
  explicit Reader(const std::vector<double>& numbers) : next_(numbers.data()) {}

  double number() { return *next_++; }
  bool flag() { return *next_++ != 0.0; }
  template <int kCount>
  void numbers(double (&out)[kCount]) {
    for (double& value : out) value = *next_++;
  }

 private:
  const double* next_;
};

}  // namespace visops
