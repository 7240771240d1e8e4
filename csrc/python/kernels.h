// The kernels of `_native` are those of libvisops, which the package has loaded before.
#pragma once

namespace visops {

// Throws std::runtime_error where the library beside this module is missing or of another build.
void take_kernels();

// Whether those are there that chains run on CUDA; the first call loads them.
bool has_cuda_kernels();

namespace kernels_internal {
void on_device(int index, void (*body)(void* context, void* stream), void* context);
}

// body(stream) with a CUDA device as the current one, and its current stream.
template <class Body>
void with_cuda_device(int index, const Body& body) {
  const auto call = [](void* context, void* stream) {
    (*static_cast<const Body*>(context))(stream);
  };
  kernels_internal::on_device(index, call, const_cast<Body*>(&body));
}

}  // namespace visops
