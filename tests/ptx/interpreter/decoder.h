// Makes a kernel's statements into instructions: blocks and operands in decode.cpp, what each
// statement becomes in instructions.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "blocks.h"
#include "code.h"

namespace ptx {

class Decoder {
 public:
  explicit Decoder(Function&& f) : kernel_(new Kernel), f_(std::move(f)) {}
  std::unique_ptr<Kernel> kernel();

 private:
  [[noreturn]] void fail(const Statement& s, const std::string& what) const;
  void position_registers();
  void position_variables();
  uint32_t constant(uint64_t value, int bits);
  int special_of(const std::string& name) const;
  // Where an operand of so many bits lies.
  uint32_t position(const Statement& s, const Word& w, int bits);
  int bits_of(const Statement& s, const Word& w) const;
  uint32_t written(const Statement& s, const Word& w, int bits);
  void address(const Statement& s, const Word& w, Instruction* i);
  uint32_t new_number(const Statement& s, Class k);
  void emit(const Raw& raw, const std::vector<uint32_t>& number);
  void instruction(const Statement& s);
  void add(const Statement& s, Instruction i);
  Flow flow(const Statement& s, const Instruction& i) const;
  void arithmetic(const Statement& s, Instruction* i);
  // mov between a register and several that make it up. As moves of one lane width each.
  void pack(const Statement& s);
  void memory(const Statement& s, Instruction* i);
  void atomic(const Statement& s, Instruction* i);
  void address_space(const Statement& s, Instruction* i);
  void lanes(const Statement& s, Instruction* i);

  std::unique_ptr<Kernel> kernel_;
  Function f_;
  std::vector<uint32_t> positions_;  // of registers
  std::map<std::string, uint64_t> symbols_;
  std::map<std::pair<uint64_t, int>, uint32_t> constants_;
};

}  // namespace ptx
