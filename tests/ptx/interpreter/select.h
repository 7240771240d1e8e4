// Which function runs an instruction: what decode.cpp asks of the files that have them.
#pragma once

#include "code.h"

namespace ptx {

// Widths of operands in bits: 0 for none, 1 for a predicate.
struct Entry {
  Run run = nullptr;
  int d = 0, a = 0, b = 0, c = 0;
  Class counts_as = Class::kMove;
};

// The instructions that compute in registers (arithmetic.cpp); null if there is no such.
const Entry* find_arithmetic(const std::string& op);

// cvt (convert.cpp). Types are "u32" and so on, registers have so many bits.
struct Conversion {
  Run run;
  int from_bits, to_bits;  // of the registers, as they were given
  uint32_t reader, writer;
};
Conversion find_conversion(const std::vector<std::string>& modifiers, int to_bits, int from_bits);

// What comes out of arithmetic in float32 as not a number: 0x7fffffff, as on the hardware; with
// VISOPS_PTX_NAN=host what the host's processor gives.
struct NanBits {
  uint32_t keep, set;
};
extern const NanBits nan_bits;

// The values of all halves.
const float* half_values();

// ld, st, atom and red (memory.cpp).
Run find_load(Space space, const std::string& type, int register_bits);
Run find_store(Space space, const std::string& type, int register_bits);
Run find_atomic(Space space, const std::string& operation, const std::string& type);
Run address_of_shared(bool to_shared);
Run address_of_local(bool to_local);
Run address_of_param();

// Instructions of a whole warp (lanes.cpp).
Run find_shuffle(const std::string& mode);
Run find_vote(const std::string& mode);
Run find_redux(const std::string& operation, const std::string& type);
Run nothing();
// Which of these lanes may go on at a synchronising instruction.
uint32_t ready_lanes(Warp& w, const Instruction& i, uint32_t arrived);

// All 32 lanes; they don't depend on each other.
#define PTX_LANES _Pragma("GCC ivdep") for (int l = 0; l < kLanes; ++l)

}  // namespace ptx
