// Half-open ranges of rows or columns.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {

struct Span {
  int64_t begin, end;
};

VISOPS_HOT_FN Span make_span(double first, double last, int64_t count) {
  Span span = {0, 0};
  if (!(first <= last) || !(first < static_cast<double>(count)) || !(last >= 0.0)) return span;
  span.begin = first > 0.0 ? static_cast<int64_t>(first) : 0;
  span.end = last < static_cast<double>(count) ? static_cast<int64_t>(last) + 1 : count;
  if (span.end > count) span.end = count;
  return span;
}

VISOPS_FN Span intersect(Span a, Span b) {
  Span both;
  both.begin = a.begin > b.begin ? a.begin : b.begin;
  both.end = a.end < b.end ? a.end : b.end;
  if (both.end < both.begin) both.end = both.begin;
  return both;
}

}  // namespace visops
