// Decoded kernels, and the state of the warps that run them.
//
// NOTE [ Registers ]
// A warp has all its lanes' values of a register beside each other: 32 numbers of 2, 4 or 8 bytes,
// or for a predicate the 32 bits of a word. Places are offsets in bytes; those with kConstant are
// in the kernel's constants, where every immediate lies 32 times. An instruction's function goes
// through all 32 lanes. Lanes that don't take part keep what they had.
//
// NOTE [ Divergence ]
// Lanes of a warp are in groups, each at the start of a basic block. Blocks are numbered so that
// what follows a loop comes after it and forward branches go up; the group at the lowest block runs
// first, and groups that meet at a block become one. Instructions that synchronise lanes stand at
// the start of a block: a group waits there until all lanes of their masks are in it. With a seed,
// groups, warps and blocks take turns at random.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "text.h"

namespace ptx {

constexpr int kLanes = 32;
constexpr uint32_t kAll = 0xffffffffu;
constexpr uint32_t kConstant = 1u << 31;
constexpr uint32_t kNowhere = kConstant - 1;

enum class Space : uint8_t { kGlobal, kGeneric, kShared, kLocal, kParam };

struct Warp;
struct Instruction;
using Run = void (*)(Warp&, const Instruction&);

// What instructions are counted as.
enum class Class : uint8_t {
  kFp32,
  kFp64,
  kInt32,
  kInt64,
  kConvert,
  kMove,
  kPredicate,
  kLoadGlobal,
  kStoreGlobal,
  kLoadShared,
  kStoreShared,
  kLocal,
  kParam,
  kAtomic,
  kWarp,
  kBarrier,
  kBranch,
  kCount
};
extern const char* const kClassNames[static_cast<int>(Class::kCount)];

struct Counts {
  uint64_t issues = 0;            // warps that ran it
  uint64_t lanes = 0;             // lanes that took part
  uint64_t units = 0, least = 0;  // sectors or passes (costs.cpp), and the fewest that would do
  uint64_t lines = 0;             // of 128 bytes of global memory
  uint64_t bytes = 0;             // that lanes asked for

  void add(const Counts& other) {
    issues += other.issues, lanes += other.lanes, units += other.units;
    least += other.least, lines += other.lines, bytes += other.bytes;
  }
};

// The bytes of global memory that a launch reads and writes.
class Touched {
 public:
  void add(uint64_t at, size_t bytes, bool writes);
  uint64_t bytes() const;

 private:
  static constexpr size_t kPage = 4096;
  struct Page {
    std::bitset<kPage> read, written;
  };
  std::unordered_map<uint64_t, Page> pages_;
};

struct Instruction {
  Run run = nullptr;
  uint32_t d = kNowhere, a = kNowhere, b = kNowhere, c = kNowhere;
  uint32_t v[4] = {kNowhere, kNowhere, kNowhere, kNowhere};  // a vector, or more operands
  int64_t offset = 0;                                        // of an address
  uint32_t wide = 0;          // whether an address's base has 64 bits
  uint32_t guard = kNowhere;  // predicate
  bool guard_negated = false;
  bool negated = false;         // of a predicate operand
  uint32_t members = kNowhere;  // of an instruction that synchronises lanes: their mask
  Class counts_as = Class::kMove;
  uint8_t access_bytes = 0;  // a lane's, of loads and stores
  uint32_t number = 0;       // counts
  int line = 0;
};

// Registers that an instruction reads and writes, for VISOPS_PTX_CHECK: numbers, -1 for what always
// has a value.
struct Flow {
  enum Kind : uint8_t {
    kPlain,
    kSelect,
    kAnd,
    kOr,
    kLoad,
    kStore,
    kAtomic,
    kShuffle,
    kNeeded
  } kind = kPlain;
  std::vector<int> reads, writes;  // of memory: the address first
  Space space = Space::kGlobal;
};

struct Basic {
  enum Kind : uint8_t { kFall, kBranch, kEnd, kBarrier };
  uint32_t begin = 0, end = 0;  // instructions
  Kind kind = kFall;
  bool sync = false;             // the first instruction synchronises lanes
  uint32_t next = 0, taken = 0;  // blocks
  uint32_t guard = kNowhere;     // kBranch and kEnd: where the predicate is
  int guard_register = -1;
  bool guard_negated = false;
  uint32_t number = kNowhere;  // counts of the last instruction, if it is none of [begin, end)
  int line = 0;
};

struct Kernel {
  std::string name, plain_name, file;  // plain: demangled
  Function function;                   // without statements
  std::vector<Instruction> code;
  std::vector<Basic> blocks;
  std::vector<unsigned char> constants;
  size_t register_bytes = 0;  // of a warp
  size_t shared_bytes = 0;    // static
  size_t dynamic_at = 0;      // where dynamic shared memory begins
  size_t local_bytes = 0;     // of a lane
  uint32_t special[16];       // where special registers lie
  std::vector<int> line_of_number;
  std::vector<Class> class_of_number;
  std::vector<std::string> operations;
  std::vector<Flow> flows;  // by number of counts
  std::set<int> told;       // lines that something was noted of
  // Statistics.
  std::vector<Counts> counts;
  uint64_t launches = 0, threads = 0, touched = 0;
  uint64_t longest = 0;  // instructions of the warp that ran most, of each launch
};

enum Special {
  kTidX,
  kTidY,
  kTidZ,
  kCtaX,
  kCtaY,
  kCtaZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kNctaX,
  kNctaY,
  kNctaZ,
  kLaneId,
  kWarpId,
  kSpecials
};

struct Launch;

struct Group {
  uint32_t block;
  uint32_t mask;
  bool waits;
};

struct Warp {
  unsigned char* base[2];  // registers, constants
  uint32_t active = 0;     // lanes that take part
  bool full = false;       // whether results of all other lanes are of no account
  uint32_t alive = 0;
  Launch* launch = nullptr;
  unsigned char* local = nullptr;
  int number = 0;
  Group groups[kLanes];
  int group_count = 0;
  enum State { kRuns, kAtBarrier, kEnded } state = kRuns;
  uint32_t barrier_block = 0;
  uint32_t* defined = nullptr;  // lanes for which each register has a value, for VISOPS_PTX_CHECK
  bool tired = false;           // ran a whole turn while other lanes could have
  uint64_t issued = 0;          // instructions of this block, if they are counted

  template <class T>
  T* at(uint32_t position) const {
    return reinterpret_cast<T*>(base[position >> 31] + (position & ~kConstant));
  }
  uint32_t& predicate(uint32_t position) const { return *at<uint32_t>(position); }
};

// Memory that a launch reads and writes.
struct Launch {
  Kernel* kernel = nullptr;
  unsigned grid[3], block[3];
  unsigned here[3] = {0, 0, 0};  // the block that runs
  const unsigned char* parameters = nullptr;
  size_t parameter_bytes = 0;
  unsigned char* shared = nullptr;
  unsigned char* shared_written = nullptr;  // whether each byte was written
  size_t shared_bytes = 0;
  uint64_t random = 0;  // 0: the usual order
  std::unordered_map<uint64_t, uint64_t>* before =
      nullptr;  // of words of global memory: VISOPS_PTX_MODE=both
  bool counts = false, checks = false;
  Touched* touched = nullptr;  // with `counts`
  uint64_t longest = 0;        // what the warp that ran most has issued, with `counts`
  uint64_t serial = 0;
  const Instruction* now = nullptr;  // for what a signal says
};

// Throws Error with kernel, line, block and thread.
[[noreturn]] void fail(const Warp& w, const Instruction& i, int lane, const std::string& what);
// Notes something once for a kernel and line.
void note(const Warp& w, const Instruction& i, int lane, const std::string& what);
// VISOPS_PTX_CHECK: follows which registers and bytes have values; before an instruction and after.
void check_before(Warp& w, const Instruction& i);
void check_after(Warp& w, const Instruction& i);
uint32_t shuffled_lanes(const Warp& w, const Instruction& i, uint32_t has);
void check_branch(const Warp& w, const Basic& b, uint32_t active);
void count_access(Warp& w, const Instruction& i, const uint64_t* at, bool is_shared, bool writes);
void remember(Launch& launch, uint64_t address, size_t bytes);
void check_global(const Warp& w, const Instruction& i, int lane, uint64_t address, size_t bytes,
                  bool writes);

std::unique_ptr<Kernel> decode(Function&& function);
void run(Launch& launch);

// Where findings go that don't end a launch.
void log_line(const std::string& text);

}  // namespace ptx
