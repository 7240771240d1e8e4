// Products of small matrices by a warp: the matrix units of compute capability 8.0 and later.
//
// NOTE [ Matrix units ]
// Operands are 32-bit words along the depth: two halves, or one float32 rounded to TF32 (10 bits of
// mantissa). A warp multiplies 16 rows by 8 columns, 8 words deep, and adds them to float32 sums.
// With g = lane / 4 and t = lane % 4, a lane holds
//   a[0], a[1], a[2], a[3]: words (row g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
//   b[0], b[1]: words (column g, t), (g, t + 4)
//   sum[0 .. 3]: (row g, column 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1)
// whatever the type of the words. Products are exact in float32. The units add up a step's products
// in an order and with a rounding of their own (they may truncate); under emulation each sum is
// rounded to nearest, in ascending depth.
//
// All lanes of a warp must call these functions together.
#pragma once

#include "core/element.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// What a thread loads and stores at once.
#if defined(_MSC_VER)
struct alignas(16) Words {
#else
struct __attribute__((may_alias, aligned(16))) Words {
#endif
  uint32_t word[4];
};

// From memory that is not written while the kernel runs.
__device__ inline Words load_words(const void* at) {
#if defined(__CUDA_ARCH__)
  const uint4 words = __ldg(static_cast<const uint4*>(at));
  return {{words.x, words.y, words.z, words.w}};
#else
  return *static_cast<const Words*>(at);
#endif
}

// A float32 for the matrix units. (A type of its own chooses their instructions.)
struct Tf32 {
  float value;
};

// Rounds to the nearest number with 10 bits of mantissa, and from the middle away from 0.
__device__ inline uint32_t to_tf32(float value) {
#if defined(VISOPS_CUDA_EMULATION)
  return cuda_emulation::to_tf32(value);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#else
  return bit_cast<uint32_t>(value);
#endif
}

// Loads four matrices of 8 rows of 4 words from shared memory. Lane i says where row i % 8 of
// matrix i / 8 lies; it gets word lane % 4 of row lane / 4 of every matrix.
__device__ inline void load_matrices(const Words* row, uint32_t (&out)[4]) {
#if defined(VISOPS_CUDA_EMULATION)
  for (int i = 0; i < 4; ++i) out[i] = cuda_emulation::row_of_lane(row, i)->word[threadIdx.x % 4];
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(at)
               : "memory");
#else
  static_cast<void>(row);
  for (uint32_t& word : out) word = 0;  // never reached: has_matrix_units() was asked before
#endif
}

// sum += a * b; the first argument chooses the type.
#if defined(VISOPS_CUDA_EMULATION)
#define VISOPS_MMA(shape, types, emulated) cuda_emulation::multiply_matrices<emulated>(sum, a, b)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define VISOPS_MMA(shape, types, emulated)                                   \
  asm("mma.sync.aligned." shape ".row.col.f32." types                        \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])               \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#else
#define VISOPS_MMA(shape, types, emulated) \
  static_cast<void>(sum), static_cast<void>(a), static_cast<void>(b)
#endif
__device__ inline void gemm_step(Half, float (&sum)[4], const uint32_t (&a)[4],
                                 const uint32_t (&b)[2]) {
  VISOPS_MMA("m16n8k16", "f16.f16", cuda_emulation::Halves);
}
__device__ inline void gemm_step(BFloat16, float (&sum)[4], const uint32_t (&a)[4],
                                 const uint32_t (&b)[2]) {
  VISOPS_MMA("m16n8k16", "bf16.bf16", cuda_emulation::BFloats);
}
__device__ inline void gemm_step(Tf32, float (&sum)[4], const uint32_t (&a)[4],
                                 const uint32_t (&b)[2]) {
  VISOPS_MMA("m16n8k8", "tf32.tf32", cuda_emulation::Floats);
}
#undef VISOPS_MMA

// Whether `kernel`, as it runs on the current device, has the code above: a build for older devices
// may run on a newer one.
template <class Kernel>
bool has_matrix_units([[maybe_unused]] Kernel* kernel) {
#if defined(VISOPS_CUDA_EMULATION)
  return true;
#else
  constexpr int kFirst = 80;  // compute capability 8.0
  cudaFuncAttributes attributes = {};
  const auto error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
  if (error != cudaSuccess) cudaGetLastError();  // what is wrong shows in the launch to come
  return error == cudaSuccess && attributes.ptxVersion >= kFirst;
#endif
}

}  // namespace
}  // namespace visops
