// How many parts of a size make up a count.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {
namespace {

VISOPS_FN int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

}  // namespace
}  // namespace visops
