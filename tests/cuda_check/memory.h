// Which memory a CUDA thread may touch, and what it is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace cuda_emulation::check {

enum class Region : uint8_t {
  kNowhere,   // no tensor, and nothing of the block's
  kShared,    // a __shared__ variable
  kDynamic,   // dynamic shared memory
  kTensor,    // a tensor that the operator's front has asked for the address of
  kScratch,   // a tensor that only kernels have written
  kConstant,  // what is linked into the program; may be read
  kUnknown,   // of a caller without tensors
  kIgnored,   // the emulation's own
};

struct Extent {
  uintptr_t begin = 0, end = 0;
  Region region = Region::kNowhere;
  bool holds(uintptr_t at, size_t bytes) const {
    return at >= begin && at <= end && bytes <= end - at;
  }
};

inline bool is_shared(Region region) {
  return region == Region::kShared || region == Region::kDynamic;
}

// Finds out where this thread's __shared__ variables are, and where the program is.
void locate_program();
uintptr_t program_base();
uintptr_t variables_begin();  // of this thread
std::string program_file();

// What memory holds that nobody has written. GCC does not tell of a function's result that goes
// straight to memory; so other bytes are a sign that somebody has.
constexpr unsigned char kUnwritten = 0xcd;
void fill_unwritten(uintptr_t begin, size_t bytes);
// Whether the part at `part` of what is read at `at` looks so.
bool looks_unwritten(uintptr_t part, uintptr_t at, size_t bytes);

void set_dynamic_shared(uintptr_t begin, size_t bytes);

// The extent that holds `at`; kNowhere, with the gap's bounds, where none does.
Extent extent_at(uintptr_t at);
// "`tile`, 40 bytes", "a tensor of shape [2, 3]".
std::string name_of(const Extent& extent);
// The extent nearest to an address that lies in none.
std::string nearest_to(uintptr_t at);

// Name of the function that begins at `at`, without namespaces and parameters.
std::string function_name(const void* at);

// Tensors. A key is remembered once; forgetting it takes its memory out.
void remember(const void* key, const void* data, size_t bytes, bool scratch, std::string shape);
void forget(const void* key);
// From here on, live scratch may have been written by others than kernels.
void others_write();
bool knows_tensors();
// Changes whenever extents do.
uint64_t memory_version();

// While it is held, no kernel runs.
std::unique_lock<std::recursive_mutex> between_launches();

}  // namespace cuda_emulation::check
