// Shared libraries and files as the operating system has them. Paths are UTF-8 on Windows.
#pragma once

#include <cstdio>
#include <string>

namespace visops {

// Mends what is damaged or of another build; the end of a message that says so.
inline constexpr char kReinstall[] = "; run: pip install --force-reinstall --no-deps visops";

// The folder that holds the code of this function, with a separator at its end.
std::string folder_of_this_library();

bool file_exists(const std::string& path);

// Opens a file as std::fopen does, to read bytes.
std::FILE* open_to_read(const char* path);

// A handle, all symbols resolved; or null, and the loader's message.
void* open_library(const std::string& path, std::string* error);

// Null if there is no such symbol.
void* symbol_of(void* library, const char* name);

// The file name of a library of this process that begins with `prefix`; empty if there is none.
// Linux only; empty elsewhere.
std::string loaded_library(const char* prefix);

}  // namespace visops
