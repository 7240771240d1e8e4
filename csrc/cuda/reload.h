// What is the same for a whole block, read from shared memory each time it is needed.
#pragma once

#include "core/platform.h"

namespace visops {
namespace {

// Compilers read what doesn't change in a loop before it, and keep all that they compute from it in
// registers. Where these are few, it is better read anew.
template <class N>
VISOPS_FN N reload(const N& number) {
  return *static_cast<const volatile N*>(&number);
}

}  // namespace
}  // namespace visops
