// What is known of every byte that CUDA threads touch: who wrote it last, and who has read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace cuda_emulation::check {

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
