// Where kernels and functions are in a file.
#include <cctype>
#include <fstream>
#include <sstream>

#include "parser.h"

namespace ptx {

Module::Module(const std::string& path) : path_(path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("can't read " + path);
  std::stringstream all;
  all << file.rdbuf();
  text_ = all.str();
  const std::string_view text = text_;
  Function nowhere;
  nowhere.file = path;
  int line = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at);
    size_t next = end + 1;
    if (row.find(".entry") != std::string_view::npos) {
      const Entry kernel = entry(at + row.find(".entry"), 6, line);
      entries_.push_back(kernel);
      next = kernel.end;
    } else if (row.find(".func") != std::string_view::npos) {
      const size_t begin = at + row.find(".func");
      next = text.find_first_of(";{", begin) + 1;  // a declaration
      if (text[next - 1] == '{') {
        const Entry function = entry(begin, 5, line);
        functions_.emplace(function.name, function);
        next = function.end;
      }
    } else if (row.find(".shared") != std::string_view::npos) {
      shared_.push_back(parse_variable(text.substr(at), line, &nowhere));
    } else if (row.find(".global") == 0 || row.find(".const") == 0 ||
               row.find(".visible .global") == 0) {
      throw Error(path + ":" + std::to_string(line) + ": not supported: " + std::string(row));
    }
    for (; at < std::min(next, text.size()); ++at) line += text[at] == '\n';
    at = next;
  }
}

// From a keyword of so many letters to the end of what it begins.
Module::Entry Module::entry(size_t begin, size_t letters, int line) const {
  size_t close = text_.find('{', begin);
  for (int depth = 0; close < text_.size(); ++close) {
    if (text_[close] == '{') ++depth;
    if (text_[close] == '}' && --depth == 0) break;
  }
  if (close >= text_.size()) throw Error(path_ + ": a kernel without an end");
  size_t name = text_.find_first_not_of(" \t\n", begin + letters);
  if (text_[name] == '(') {  // what a function returns
    name = text_.find_first_not_of(" \t\n", text_.find(')', name) + 1);
  }
  size_t name_end = name;
  while (is_name(text_[name_end])) ++name_end;
  return {text_.substr(name, name_end - name), begin, close + 1, line};
}

Function Module::parse(const Entry& kernel) const {
  Function function;
  function.file = path_;
  parse_kernel({text_, functions_}, kernel, shared_, &function);
  return function;
}

}  // namespace ptx
