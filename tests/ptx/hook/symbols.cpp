#include "symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "interpreter/text.h"

namespace ptx {

std::string canonical_name(const std::string& mangled) {
  static const std::string kMark = "_GLOBAL__N_";
  std::string out;
  size_t from = 0;
  for (;;) {
    const size_t mark = mangled.find(kMark, from);
    if (mark == std::string::npos) return out + mangled.substr(from);
    size_t digits = mark;
    while (digits > from && std::isdigit(static_cast<unsigned char>(mangled[digits - 1]))) --digits;
    const size_t length = std::stoul(mangled.substr(digits, mark - digits));
    out += mangled.substr(from, digits - from) + "12_GLOBAL__N_1";
    from = mark + length;
  }
}

std::string stem(std::string file) {
  file = file.substr(file.rfind('/') + 1);
  file = file.substr(0, file.rfind('.'));
  const size_t dot = file.rfind('.');
  return dot == std::string::npos ? file : file.substr(dot + 1);
}

std::string demangle(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = text == nullptr ? name : text;
  std::free(text);
  const size_t visops = out.find("visops::(anonymous namespace)::");
  out = visops == std::string::npos ? out : out.substr(visops + 31);
  // Arguments say nothing that the name does not.
  int depth = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '<') ++depth;
    if (out[i] == '>') --depth;
    if (out[i] == '(' && depth == 0 && out.compare(i, 3, "(an") != 0) return out.substr(0, i);
  }
  return out;
}

Symbols::Symbols(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  if (file < 0) throw Error("can't read " + path);
  struct stat info;
  fstat(file, &info);
  const size_t size = static_cast<size_t>(info.st_size);
  const char* data = static_cast<const char*>(mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0));
  close(file);
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(data);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(data + header->e_shoff);
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const char* names = data + sections[sections[s].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(data + sections[s].sh_offset);
    std::string source;
    for (size_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i) {
      const char* name = names + symbols[i].st_name;
      const int type = ELF64_ST_TYPE(symbols[i].st_info);
      if (type == STT_FILE) source = stem(name);
      if (type != STT_FUNC || symbols[i].st_value == 0) continue;
      if (std::strncmp(name, "_ZN6visops12_GLOBAL__N_1", 24) != 0) continue;
      all_.emplace(symbols[i].st_value, source + " " + name);
    }
  }
  munmap(const_cast<char*>(data), size);
}

const std::string* Symbols::at(uint64_t offset) const {
  const auto found = all_.find(offset);
  return found == all_.end() ? nullptr : &found->second;
}

}  // namespace ptx
