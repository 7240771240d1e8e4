// Which memory a CUDA thread may touch, and what it is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

// What is known of every byte that CUDA threads touch: who wrote it last, and who has read it.

constexpr size_t kPageBytes = 4096;

// Blocks are numbered from 1 over the whole run of the program; 0 is none.
struct Cell {
  uint32_t write_block, write_epoch, write_stamp, write_where;
  uint32_t read_block, read_epoch, read_stamp, read_where;
  uint32_t read_lanes;  // of read_warp
  uint16_t write_thread, read_thread;
  uint16_t read_warp;
  uint8_t write_kind;  // kAtomic, kManyThreads, kManyBlocks
  uint8_t read_kind;   // kManyThreads: of several warps; kManyBlocks
};

constexpr uint8_t kPlain = 0, kAtomicWrite = 1, kManyThreads = 2, kManyBlocks = 4;

// A page has a cell for every 4 bytes, until a narrower access asks for one a byte.
struct Page {
  uintptr_t number = 0;
  bool is_of_bytes = false;
  std::unique_ptr<Cell[]> cells;
};

// The page of an address, made at its first use.
Page* page_of(uintptr_t at);
void split(Page* page);

// Forgets who wrote and read these bytes.
void forget_writes(uintptr_t begin, size_t bytes);
// Gives memory back, if there is much.
void forget_old_pages();

// call(cell, address, bytes) for every cell of an access.
template <class Call>
void for_each_cell(uintptr_t at, size_t bytes, const Call& call) {
  while (bytes > 0) {
    Page* page = page_of(at);
    if (!page->is_of_bytes && (at % 4 != 0 || bytes % 4 != 0)) split(page);
    const size_t width = page->is_of_bytes ? 1 : 4;
    const size_t offset = at % kPageBytes;
    const size_t here = bytes < kPageBytes - offset ? bytes : kPageBytes - offset;
    for (size_t i = 0; i < here; i += width) {
      call(&page->cells[(offset + i) / width], at + i, width);
    }
    at += here;
    bytes -= here;
  }
}

}  // namespace cuda_emulation::check
