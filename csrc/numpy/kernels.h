// The kernels of `_numpy` are those of libvisops, which the package has loaded before.
#pragma once

namespace visops {

// Throws std::runtime_error where the library beside this module is missing or of another build.
void take_kernels();

// A function that libvisops exports; call take_kernels() before.
void* library_function(const char* name);

}  // namespace visops
