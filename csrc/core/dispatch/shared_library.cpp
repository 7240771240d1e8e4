#include "core/dispatch/shared_library.h"

#include <cstring>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#include <sys/stat.h>
#endif
#if defined(__linux__)
#include <link.h>
#endif

namespace visops {

#if defined(_WIN32)

std::string folder_of_this_library() {
  HMODULE module = nullptr;
  GetModuleHandleExA(
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
      reinterpret_cast<const char*>(&folder_of_this_library), &module);
  char path[MAX_PATH];
  const std::string file(path, GetModuleFileNameA(module, path, MAX_PATH));
  return file.substr(0, file.find_last_of("\\/") + 1);
}

bool file_exists(const std::string& path) {
  return GetFileAttributesA(path.c_str()) != INVALID_FILE_ATTRIBUTES;
}

void* open_library(const std::string& path, std::string* error) {
  void* const library = LoadLibraryA(path.c_str());
  if (library == nullptr) *error = path + ": error " + std::to_string(GetLastError());
  return library;
}

void* symbol_of(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

#else

std::string folder_of_this_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&folder_of_this_library), &info) == 0) return "";
  const std::string file = info.dli_fname;
  return file.substr(0, file.rfind('/') + 1);
}

bool file_exists(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

void* open_library(const std::string& path, std::string* error) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) *error = dlerror();
  return library;
}

void* symbol_of(void* library, const char* name) { return dlsym(library, name); }

#endif

#if defined(__linux__)

namespace {

struct Search {
  const char* prefix;
  std::string found;
};

int match(dl_phdr_info* info, size_t, void* data) {
  Search* const search = static_cast<Search*>(data);
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const char* const name = slash == nullptr ? info->dlpi_name : slash + 1;
  if (std::strncmp(name, search->prefix, std::strlen(search->prefix)) != 0) return 0;
  search->found = name;
  return 1;
}

}  // namespace

std::string loaded_library(const char* prefix) {
  Search search = {prefix, ""};
  dl_iterate_phdr(match, &search);
  return search.found;
}

#else

std::string loaded_library(const char*) { return ""; }

#endif

}  // namespace visops
