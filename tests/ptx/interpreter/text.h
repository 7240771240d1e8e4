// PTX as text: what a kernel declares, and its statements in words.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An operand as it is written.
struct Word {
  enum Kind { kRegister, kSpecial, kInteger, kFloat, kDouble, kSymbol, kVector, kAddress, kSink };
  Kind kind = kSink;
  int number = -1;          // kRegister: in Function::registers
  int second = -1;          // kRegister: the predicate after '|'
  bool negated = false;     // "!%p1"
  uint64_t bits = 0;        // of a number
  int64_t offset = 0;       // kAddress and kSymbol
  std::string name;         // kSpecial, kSymbol, and the base of kAddress if it is a symbol
  std::vector<Word> parts;  // kVector
  bool base_is_symbol = false, has_base = false;  // kAddress; a base register is in `number`
  bool is_variable = false;                       // kAddress and kSymbol: a thread's own
};

struct Statement {
  int line = 0;  // in the file
  int guard = -1;
  bool guard_negated = false;
  std::string op;                      // with all its modifiers
  std::vector<std::string> modifiers;  // op split at dots; the first is the operation itself
  std::vector<Word> words;
};

struct Register {
  std::string name;
  int bits;  // 1 for predicates
};

struct Variable {
  std::string name;
  size_t align = 1, bytes = 0;
  bool is_dynamic = false;  // extern shared
};

struct Parameter {
  std::string name;
  size_t align, bytes, offset;
};

struct Function {
  std::string name, file;
  int line = 0;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  std::vector<Register> registers;
  std::vector<Variable> shared, local;
  int max_threads = 0, min_blocks = 0;
  std::vector<Statement> statements;
  std::map<std::string, size_t> labels;  // index of the statement that follows
};

// A file, in which kernels are found at once and parsed when they are needed.
class Module {
 public:
  explicit Module(const std::string& path);
  struct Entry {
    std::string name;
    size_t begin, end;  // from ".entry" to after its "}"
    int line;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& path() const { return path_; }
  Function parse(const Entry& kernel) const;

 private:
  Entry entry(size_t begin, size_t letters, int line) const;

  std::string path_, text_;
  std::vector<Entry> entries_;
  std::map<std::string, Entry> functions_;
  std::vector<Variable> shared_;  // of the module
};

}  // namespace ptx
