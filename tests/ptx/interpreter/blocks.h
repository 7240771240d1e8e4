// The basic blocks of a kernel's text.
#pragma once

#include <string>
#include <vector>

#include "text.h"

namespace ptx {

struct Raw {                  // a basic block in the order of the text
  size_t begin = 0, end = 0;  // statements, the branch at the end among them
  std::vector<size_t> next;   // blocks; the branch's target last
  bool is_sync = false;
};

// What a statement does to the flow of control.
bool is_sync(const Statement& s);     // synchronises the lanes of a warp
bool is_barrier(const Statement& s);  // of a block
bool ends(const Statement& s);        // a block: a branch, or the end of a thread

std::vector<Raw> find_blocks(const Function& f);
// Numbers of the blocks in the order of NOTE [ Divergence ].
std::vector<size_t> order_of(const std::vector<Raw>& blocks);

[[noreturn]] void fail(const Function& f, const Statement& s, const std::string& what);

}  // namespace ptx
