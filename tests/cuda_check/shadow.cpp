#include "shadow.h"

#include <cstring>
#include <unordered_map>

namespace cuda_emulation::check {
namespace {

constexpr size_t kManyPages = 4096;
constexpr size_t kRecent = 1024;

std::unordered_map<uintptr_t, Page> pages;
Page* recent[kRecent];

}  // namespace

Page* page_of(uintptr_t at) {
  const uintptr_t number = at / kPageBytes;
  Page*& slot = recent[number % kRecent];
  if (slot != nullptr && slot->number == number) return slot;
  Page& page = pages[number];
  if (!page.cells) {
    page.number = number;
    page.cells.reset(new Cell[kPageBytes / 4]());
  }
  return slot = &page;
}

void split(Page* page) {
  std::unique_ptr<Cell[]> cells(new Cell[kPageBytes]);
  for (size_t i = 0; i < kPageBytes; ++i) cells[i] = page->cells[i / 4];
  page->cells = std::move(cells);
  page->is_of_bytes = true;
}

void forget_writes(uintptr_t begin, size_t bytes) {
  const uintptr_t end = begin + bytes;
  for (uintptr_t at = begin; at < end; at = (at / kPageBytes + 1) * kPageBytes) {
    if (pages.find(at / kPageBytes) == pages.end()) continue;
    const uintptr_t page_end = (at / kPageBytes + 1) * kPageBytes;
    const uintptr_t last = end < page_end ? end : page_end;
    for_each_cell(at, last - at, [](Cell* cell, uintptr_t, size_t) { *cell = Cell{}; });
  }
}

void forget_old_pages() {
  if (pages.size() < kManyPages) return;
  pages.clear();
  std::memset(recent, 0, sizeof(recent));
}

}  // namespace cuda_emulation::check
