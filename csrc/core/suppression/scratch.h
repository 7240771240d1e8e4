// Several arrays in one piece of scratch.
#pragma once

#include <cstdint>

#include "core/dispatch/workspace.h"

namespace visops {

// Takes an array off the front of *memory. Arrays of wider elements go first: nothing is padded.
template <class T>
VISOPS_FN T* take_array(char** memory, int64_t count) {
  T* array = reinterpret_cast<T*>(*memory);
  *memory += count * static_cast<int64_t>(sizeof(T));
  return array;
}

}  // namespace visops
