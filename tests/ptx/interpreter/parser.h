// From the text of a kernel to statements.
//
// NOTE [ Calls ]
// A function stands in the place of every call of it: its registers are new ones, its labels get a
// prefix, and "ret" is a branch to what follows the call. Parameters between caller and function
// (".param" in a body) are local variables of the thread.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "text.h"

namespace ptx {

struct Functions {
  std::string_view text;  // of the module
  const std::map<std::string, Module::Entry>& by_name;
};

inline bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}

void parse_kernel(const Functions& functions, const Module::Entry& kernel,
                  const std::vector<Variable>& shared_of_module, Function* out);
// ".shared .align 4 .b8 name[12];" at the start of a text.
Variable parse_variable(std::string_view text, int line, Function* where);

}  // namespace ptx
