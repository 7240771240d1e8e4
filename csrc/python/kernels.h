// The kernels of `_native` are those of libvisops, which the package has loaded before.
#pragma once

namespace visops {

// Throws std::runtime_error where the library beside this module is missing or of another build.
void take_kernels();

}  // namespace visops
