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

namespace {

// Functions of Windows that take char read names in the code page of the user's language.
std::wstring wide(const char* utf8) {
  const int size = MultiByteToWideChar(CP_UTF8, 0, utf8, -1, nullptr, 0);
  std::wstring name(size > 0 ? size - 1 : 0, L'\0');
  MultiByteToWideChar(CP_UTF8, 0, utf8, -1, name.data(), size);
  return name;
}

std::string narrow(const std::wstring& name) {
  const int length = static_cast<int>(name.size());
  const int size =
      WideCharToMultiByte(CP_UTF8, 0, name.data(), length, nullptr, 0, nullptr, nullptr);
  std::string utf8(size, '\0');
  WideCharToMultiByte(CP_UTF8, 0, name.data(), length, utf8.data(), size, nullptr, nullptr);
  return utf8;
}

constexpr size_t kLongestPath = 32767;

}  // namespace

std::string folder_of_this_library() {
  HMODULE module = nullptr;
  GetModuleHandleExW(
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
      reinterpret_cast<const wchar_t*>(&folder_of_this_library), &module);
  std::wstring file(kLongestPath, L'\0');
  file.resize(GetModuleFileNameW(module, file.data(), static_cast<DWORD>(file.size())));
  return narrow(file.substr(0, file.find_last_of(L"\\/") + 1));
}

bool file_exists(const std::string& path) {
  return GetFileAttributesW(wide(path.c_str()).c_str()) != INVALID_FILE_ATTRIBUTES;
}

std::FILE* open_to_read(const char* path) { return _wfopen(wide(path).c_str(), L"rb"); }

void* open_library(const std::string& path, std::string* error) {
  void* const library = LoadLibraryW(wide(path.c_str()).c_str());
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

std::FILE* open_to_read(const char* path) { return std::fopen(path, "rb"); }

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
