// How large results get their pages.
#pragma once

#include <cstdint>

namespace visops {

// Asks for large pages for new memory.
void prefer_large_pages(void* data, int64_t bytes);

}  // namespace visops
