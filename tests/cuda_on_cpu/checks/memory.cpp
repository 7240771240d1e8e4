// NOTE [ Memory of emulated kernels ]
// __shared__ variables are thread_local: they are exactly the thread-local symbols of the program,
// with their sizes, in its symbol table. The emulation puts an array named visops_redzone_<n>
// between any two. Tensors are remembered from when a front asks for their address until it lets go
// of them (tensors.cpp), so what is left is memory that no kernel may touch: a host pointer, or one
// of a tensor that is gone.
#include "memory.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <pthread.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace cuda_emulation::check {
namespace {

struct Symbol {
  uintptr_t offset;
  size_t bytes;
  std::string name;
};

struct Program {
  bool is_read = false;
  std::string file;
  uintptr_t base = 0;
  std::vector<std::pair<uintptr_t, uintptr_t>> images;
  std::vector<Symbol> variables;  // thread-local, by offset
  size_t variables_bytes = 0;
  std::vector<Symbol> functions;  // by offset
  pthread_t thread{};
  uintptr_t variables_at = 0;  // of `thread`
};

struct Tensor {
  uintptr_t begin, end;
  bool scratch;
  std::string shape;
};

Program program;
std::mutex tensors_mutex;
std::map<const void*, Tensor> tensors;
uint64_t version = 1;
Extent dynamic_shared;

int find_program(dl_phdr_info* info, size_t, void*) {
  const auto here = reinterpret_cast<uintptr_t>(&find_program);
  bool is_it = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    is_it = is_it || (part.p_type == PT_LOAD && here >= begin && here < begin + part.p_memsz);
  }
  if (!is_it) return 0;
  program.base = info->dlpi_addr;
  program.variables_at = reinterpret_cast<uintptr_t>(info->dlpi_tls_data);
  program.images.clear();
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) program.images.emplace_back(begin, begin + part.p_memsz);
    if (part.p_type == PT_TLS) program.variables_bytes = part.p_memsz;
  }
  return 1;
}

template <class T>
const T* at(const std::string& bytes, size_t offset) {
  return reinterpret_cast<const T*>(bytes.data() + offset);
}

void read_symbols() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&find_program), &info);
  const bool is_library = info.dli_fname != nullptr && std::strstr(info.dli_fname, ".so");
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) self[0] = '\0';
  program.file = is_library ? info.dli_fname : self;
  std::ifstream in(program.file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.size() < sizeof(Elf64_Ehdr)) return;
  const auto* header = at<Elf64_Ehdr>(bytes, 0);
  for (unsigned s = 0; s < header->e_shnum; ++s) {
    const auto* section = at<Elf64_Shdr>(bytes, header->e_shoff + s * sizeof(Elf64_Shdr));
    if (section->sh_type != SHT_SYMTAB) continue;
    const auto* names =
        at<Elf64_Shdr>(bytes, header->e_shoff + section->sh_link * sizeof(Elf64_Shdr));
    for (size_t i = 0; i < section->sh_size / sizeof(Elf64_Sym); ++i) {
      const auto* symbol = at<Elf64_Sym>(bytes, section->sh_offset + i * sizeof(Elf64_Sym));
      if (symbol->st_shndx == SHN_UNDEF) continue;
      const char* name = bytes.data() + names->sh_offset + symbol->st_name;
      const int type = ELF64_ST_TYPE(symbol->st_info);
      if (type == STT_TLS) {
        program.variables.push_back({symbol->st_value, symbol->st_size, name});
      } else if (type == STT_FUNC) {
        program.functions.push_back({symbol->st_value, symbol->st_size, name});
      }
    }
  }
  const auto earlier = [](const Symbol& a, const Symbol& b) { return a.offset < b.offset; };
  std::sort(program.variables.begin(), program.variables.end(), earlier);
  std::sort(program.functions.begin(), program.functions.end(), earlier);
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

// "int visops::(anonymous namespace)::f<float>(int)" to "f<float>".
std::string short_function(std::string name) {
  for (const char* space : {"visops::", "(anonymous namespace)::", "void "}) {
    for (size_t i; (i = name.find(space)) != std::string::npos;) name.erase(i, std::strlen(space));
  }
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (depth == 0 && name[i] == '(' && i > 0) return name.substr(0, i);
  }
  return name;
}

bool is_redzone(const Symbol& symbol) {
  return symbol.name.find("visops_redzone_") != std::string::npos;
}

// Also what is no function's own.
bool is_emulation(const Symbol& symbol) {
  if (symbol.name.rfind("_ZZ", 0) != 0) return true;
  return symbol.name.find("cuda_emulation") != std::string::npos ||
         symbol.name.rfind("_ZGV", 0) == 0;
}

// The last variable at or before an offset, or null.
const Symbol* variable_before(uintptr_t offset) {
  const auto after =
      std::upper_bound(program.variables.begin(), program.variables.end(), offset,
                       [](uintptr_t value, const Symbol& symbol) { return value < symbol.offset; });
  return after == program.variables.begin() ? nullptr : &*(after - 1);
}

Extent variable_at(uintptr_t offset) {
  const Symbol* symbol = variable_before(offset);
  if (symbol == nullptr || offset >= symbol->offset + symbol->bytes) return {};
  const uintptr_t begin = program.variables_at + symbol->offset;
  const Region region = is_redzone(*symbol)     ? Region::kNowhere
                        : is_emulation(*symbol) ? Region::kIgnored
                                                : Region::kShared;
  return {begin, begin + symbol->bytes, region};
}

}  // namespace

void locate_program() {
  if (!program.is_read) {
    dl_iterate_phdr(find_program, nullptr);
    read_symbols();
    program.is_read = true;
  }
  if (program.variables_at == 0 || !pthread_equal(program.thread, pthread_self())) {
    dl_iterate_phdr(find_program, nullptr);
    program.thread = pthread_self();
    ++version;
    for (const Symbol& symbol : program.variables) {
      const Extent extent = variable_at(symbol.offset);
      if (extent.region == Region::kShared) fill_unwritten(extent.begin, symbol.bytes);
    }
  }
}

void fill_unwritten(uintptr_t begin, size_t bytes) {
  std::memset(reinterpret_cast<void*>(begin), kUnwritten, bytes);
}

// A byte may look unwritten by chance: what is read as one counts together. Of a copy, 8 bytes do:
// padding is fewer, and nobody writes it.
bool looks_unwritten(uintptr_t part, uintptr_t at, size_t bytes) {
  const bool is_copy = bytes > 16;
  const uintptr_t begin = is_copy ? std::max(part & ~uintptr_t{7}, at) : at;
  const uintptr_t end = is_copy ? std::min(begin + 8, at + bytes) : at + bytes;
  const auto* now = reinterpret_cast<const unsigned char*>(begin);
  return std::all_of(now, now + (end - begin),
                     [](unsigned char byte) { return byte == kUnwritten; });
}

uintptr_t variables_begin() { return program.variables_at; }
uintptr_t program_base() { return program.base; }
std::string program_file() { return program.file; }

void set_dynamic_shared(uintptr_t begin, size_t bytes) {
  if (dynamic_shared.begin == begin && dynamic_shared.end == begin + bytes) return;
  dynamic_shared = {begin, begin + bytes, Region::kDynamic};
  ++version;
}

Extent extent_at(uintptr_t at) {
  if (at - program.variables_at < program.variables_bytes) {
    return variable_at(at - program.variables_at);
  }
  if (dynamic_shared.holds(at, 1)) return dynamic_shared;
  {
    const std::lock_guard<std::mutex> lock(tensors_mutex);
    // Where several tensors hold it, the widest counts.
    Extent found;
    for (const auto& [key, tensor] : tensors) {
      if (at < tensor.begin || at >= tensor.end) continue;
      if (tensor.end - tensor.begin <= found.end - found.begin) continue;
      found = {tensor.begin, tensor.end, tensor.scratch ? Region::kScratch : Region::kTensor};
    }
    if (found.end != 0) return found;
    if (tensors.empty()) return {at & ~uintptr_t{63}, (at & ~uintptr_t{63}) + 64, Region::kUnknown};
  }
  for (const auto& [begin, end] : program.images) {
    if (at >= begin && at < end) return {begin, end, Region::kConstant};
  }
  return {};
}

std::string name_of(const Extent& extent) {
  const std::string bytes = std::to_string(extent.end - extent.begin) + " bytes";
  if (extent.region == Region::kDynamic) return "dynamic shared memory of " + bytes;
  if (extent.region == Region::kShared) {
    const Symbol* symbol = variable_before(extent.begin - program.variables_at);
    const std::string name = demangled(symbol->name);
    return "shared `" + name.substr(name.rfind("::") + 2) + "` of " + bytes;
  }
  const std::lock_guard<std::mutex> lock(tensors_mutex);
  for (const auto& [key, tensor] : tensors) {
    if (tensor.begin != extent.begin || tensor.end != extent.end) continue;
    return (tensor.scratch ? "scratch of " + bytes : "a tensor of shape " + tensor.shape);
  }
  return "memory that is no tensor";
}

std::string nearest_to(uintptr_t at) {
  if (at - program.variables_at < program.variables_bytes) {
    for (uintptr_t step = 1; step < 256; ++step) {
      for (const uintptr_t near : {at - step, at + step}) {
        const Extent extent = variable_at(near - program.variables_at);
        if (extent.region != Region::kShared) continue;
        return std::to_string(near < at ? step - 1 : step) +
               (near < at ? " bytes past the end of " : " bytes before ") + name_of(extent);
      }
    }
    return "shared memory of no variable";
  }
  std::string text = "memory of no tensor";
  uintptr_t nearest = 4096;
  Extent all[2] = {dynamic_shared, {}};
  const auto consider = [&](const Extent& extent) {
    const uintptr_t past = at - extent.end, before = extent.begin - at;
    if (past < nearest) {
      nearest = past;
      text = std::to_string(past) + " bytes past the end of " + name_of(extent);
    } else if (before < nearest) {
      nearest = before;
      text = std::to_string(before) + " bytes before " + name_of(extent);
    }
  };
  if (all[0].end != 0) consider(all[0]);
  std::vector<Extent> extents;
  {
    const std::lock_guard<std::mutex> lock(tensors_mutex);
    for (const auto& [key, tensor] : tensors) {
      extents.push_back({tensor.begin, tensor.end, Region::kTensor});
    }
  }
  for (const Extent& extent : extents) consider(extent);
  return text;
}

std::string function_name(const void* function) {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(function) - program.base;
  for (const Symbol& symbol : program.functions) {
    if (symbol.offset == offset) return short_function(demangled(symbol.name));
  }
  return "a kernel";
}

void remember(const void* key, const void* data, size_t bytes, bool scratch, std::string shape) {
  if (bytes == 0 || data == nullptr) return;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const auto no_kernel_runs = between_launches();
  const std::lock_guard<std::mutex> lock(tensors_mutex);
  const auto known = tensors.find(key);
  if (known != tensors.end() && known->second.begin == begin &&
      known->second.end == begin + bytes) {
    return;
  }
  if (scratch) {
    forget_writes(begin, bytes);
    fill_unwritten(begin, bytes);
  }
  tensors[key] = {begin, begin + bytes, scratch, std::move(shape)};
  ++version;
}

void forget(const void* key) {
  const auto no_kernel_runs = between_launches();
  const std::lock_guard<std::mutex> lock(tensors_mutex);
  if (tensors.erase(key) == 0) return;
  ++version;
  if (tensors.empty()) forget_old_pages();
}

void others_write() {
  const auto no_kernel_runs = between_launches();
  const std::lock_guard<std::mutex> lock(tensors_mutex);
  for (auto& [key, tensor] : tensors) {
    if (tensor.scratch) ++version;
    tensor.scratch = false;
  }
}

bool knows_tensors() {
  const std::lock_guard<std::mutex> lock(tensors_mutex);
  return !tensors.empty();
}

uint64_t memory_version() { return version; }

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
