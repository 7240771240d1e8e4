// NOTE [ Races of emulated kernels ]
// Two accesses to a byte, not both reads and not both atomic, race unless one comes before the
// other whatever the schedule: both by one thread; __syncthreads between them (its count is the
// epoch); __syncwarp between them, directly or through other lanes; or different launches. Shuffles
// and votes order nothing, as CUDA has it. Two writes of one value don't race. volatile accesses
// count as atomic.
//
// __syncwarp: a warp counts its barriers, and an access is stamped with the count.
// seen[lane][other] is the count up to which this lane has seen what the other did; lanes that meet
// take the largest of theirs.
//
// Every access is held against the last write, and every write against all reads since: of one warp
// they are kept as lanes, and of more it is enough to know that there were several.
#include "parts.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "fibers.h"

namespace cuda_emulation::check {

void* watched = nullptr;
uintptr_t own_stack = 0, own_stack_bytes = 0;

namespace {

// What no GPU can start, though a CPU can: each returns what is wrong, or nothing.
std::string fault_of_parameters(size_t bytes) {
  constexpr size_t kMost = 32764;  // since CUDA 12.1
  if (bytes <= kMost) return "";
  return "its parameters take " + std::to_string(bytes) + " bytes, more than " +
         std::to_string(kMost);
}

std::string fault_of_shared(size_t all, size_t dynamic) {
  constexpr size_t kMost = 48 * 1024;  // more must be opted in to
  if (all <= kMost) return "";
  return std::to_string(all) + " bytes, " + std::to_string(dynamic) + " of them dynamic; " +
         std::to_string(kMost) + " are allowed";
}

constexpr size_t kMostFindings = 8;
constexpr size_t kMostOldBytes = 64;
constexpr uint32_t kNoEpoch = UINT32_MAX;

std::recursive_mutex launch_mutex;
Launch launch;
uint32_t blocks_begun = 0, first_block = 1, block = 0, epoch = 0;
std::vector<size_t> linear_block;  // by number - first_block
unsigned thread = 0, warp = 0, lane = 0;
uint32_t barriers[32];
uint32_t seen[32][32][32];
std::vector<Finding> findings;
std::set<std::tuple<std::string, const void*, const void*>> known_findings;

struct KnownExtent {
  Extent extent;
  uint64_t version = 0;
} known_extents[1024];  // by place in the code, which mostly touches one array

// A write to bytes that another thread wrote: a race unless they stay as they are.
struct Pending {
  bool is_set = false;
  uintptr_t at = 0;
  size_t bytes = 0;
  unsigned char old[kMostOldBytes];
  Finding finding;
};
Pending pending;

std::string thread_text(unsigned i) {
  const Position size = launch.block;
  return "thread " + position_text(i % size.x, i / size.x % size.y, i / size.x / size.y);
}

std::string block_text(uint32_t number) {
  const size_t i = linear_block[number - first_block];
  const Position size = launch.grid;
  return "block " + position_text(static_cast<unsigned>(i % size.x),
                                  static_cast<unsigned>(i / size.x % size.y),
                                  static_cast<unsigned>(i / size.x / size.y));
}

std::string bytes_text(uintptr_t at, size_t bytes, const Extent& extent) {
  return std::to_string(bytes) + (bytes == 1 ? " byte at offset " : " bytes at offset ") +
         std::to_string(at - extent.begin) + " of " + name_of(extent);
}

void add(Finding finding) {
  if (findings.size() >= kMostFindings) return;
  if (!known_findings.emplace(finding.what, finding.where, finding.before).second) return;
  findings.push_back(std::move(finding));
}

// Ends the launch: going on would touch memory that is not the kernel's.
[[noreturn]] void fail_now(const std::string& what, const std::string& text, const void* where) {
  findings.push_back({what, text, where, nullptr});
  const std::string all = describe(kernel_name(), findings);
  findings.clear();
  scheduler().abandon(std::make_exception_ptr(std::runtime_error(all)));
}

void settle_pending() {
  pending.is_set = false;
  if (std::memcmp(pending.old, reinterpret_cast<const void*>(pending.at), pending.bytes) != 0) {
    add(std::move(pending.finding));
  }
}

uint32_t offset_of(const void* where) {
  if (where == nullptr) return 0;
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(where) - program_base());
}

const void* where_of(uint32_t offset) {
  if (offset == 0) return nullptr;
  return reinterpret_cast<const void*>(program_base() + offset);
}

struct Access {
  uintptr_t at;
  size_t bytes;
  unsigned kind;
  const void* where;
  const Extent& extent;
  bool block_local;
};

Finding race(const Access& access, const char* earlier, unsigned other, uint32_t other_block,
             uint32_t where) {
  std::string text = thread_text(thread) + " of " + block_text(block) + " " + verb(access.kind) +
                     " " + bytes_text(access.at, access.bytes, access.extent) + " at %1; ";
  text += other_block == block && other == thread ? "another thread" : thread_text(other);
  text += other_block == block ? " of the same block " : " of " + block_text(other_block) + " ";
  text += std::string(earlier) + " it at %2, ";
  text += other_block == block ? "with no barrier between" : "in the same launch";
  return {"a race", text, access.where, where_of(where)};
}

bool in_launch(uint32_t number, const Access& access) {
  return access.block_local ? number == block : number >= first_block;
}

// Whether an access of this launch comes before whatever this thread does now.
bool is_before(uint32_t other_block, uint32_t other_epoch, unsigned other, uint32_t stamp) {
  if (other_block != block) return false;
  if (other_epoch != epoch || other == thread) return true;
  return other / 32 == warp && stamp < seen[warp][lane][other % 32];
}

bool races_with_write(const Cell& cell, const Access& access) {
  if (!in_launch(cell.write_block, access)) return false;
  if ((access.kind & kAtomic) && (cell.write_kind & kAtomicWrite)) return false;
  if (!is_before(cell.write_block, cell.write_epoch, cell.write_thread, cell.write_stamp)) {
    return true;
  }
  if (cell.write_kind & kManyBlocks) return true;
  return (cell.write_kind & kManyThreads) && cell.write_epoch == epoch;
}

bool races_with_reads(const Cell& cell, const Access& access) {
  if (cell.read_lanes == 0 || !in_launch(cell.read_block, access)) return false;
  if (cell.read_block != block || (cell.read_kind & kManyBlocks)) return true;
  if (cell.read_epoch != epoch) return false;
  if (cell.read_warp != warp || (cell.read_kind & kManyThreads)) return true;
  for (unsigned other = 0; other < 32; ++other) {
    if (other == lane || !(cell.read_lanes >> other & 1)) continue;
    if (cell.read_stamp >= seen[warp][lane][other]) return true;
  }
  return false;
}

void note_read(Cell* cell, const Access& access) {
  const uint32_t now = barriers[warp], mine = 1u << lane;
  const bool of_launch = cell->read_lanes != 0 && in_launch(cell->read_block, access);
  if (of_launch && cell->read_block == block && cell->read_epoch == epoch) {
    if (cell->read_warp != warp) {
      cell->read_kind |= kManyThreads;
      cell->read_warp = static_cast<uint16_t>(warp);
      cell->read_lanes = mine;
    } else if (cell->read_stamp != now) {
      // What this lane has seen of the others' reads comes before whatever comes after it.
      for (unsigned other = 0; other < 32; ++other) {
        if (cell->read_stamp < seen[warp][lane][other]) cell->read_lanes &= ~(1u << other);
      }
    }
    cell->read_lanes |= mine;
  } else {
    const bool of_other = of_launch && (cell->read_block != block);
    cell->read_kind = of_other || (of_launch && (cell->read_kind & kManyBlocks)) ? kManyBlocks : 0;
    cell->read_block = block;
    cell->read_epoch = epoch;
    cell->read_warp = static_cast<uint16_t>(warp);
    cell->read_lanes = mine;
  }
  cell->read_stamp = now;
  cell->read_thread = static_cast<uint16_t>(thread);
  cell->read_where = offset_of(access.where);
}

void note_write(Cell* cell, const Access& access) {
  uint8_t kind = access.kind & kAtomic ? kAtomicWrite : kPlain;
  if (kind == kAtomicWrite && in_launch(cell->write_block, access)) {
    if (cell->write_block != block) kind |= kManyBlocks;
    kind |= cell->write_kind & kManyBlocks;
    if (cell->write_block == block && cell->write_epoch == epoch) {
      kind |= cell->write_kind & kManyThreads;
      if (cell->write_thread / 32u != warp) kind |= kManyThreads;
    }
  }
  cell->write_block = block;
  cell->write_epoch = epoch;
  cell->write_stamp = barriers[warp];
  cell->write_thread = static_cast<uint16_t>(thread);
  cell->write_where = offset_of(access.where);
  cell->write_kind = kind;
  cell->read_lanes = 0;
}

bool is_unwritten(Cell* cell, uintptr_t at, const Access& access) {
  const bool written = access.block_local
                           ? cell->write_block == block
                           : access.extent.region != Region::kScratch || cell->write_block != 0;
  if (written) return false;
  if (looks_unwritten(at, access.at, access.bytes)) return true;
  // Somebody has written it unseen, some time before: to shared memory in this block, to scratch in
  // an earlier launch.
  cell->write_block = access.block_local ? block : first_block - 1;
  cell->write_epoch = kNoEpoch;
  return false;
}

void look_at_cell(Cell* cell, uintptr_t at, const Access& access, bool* is_pending) {
  if ((access.kind & kRead) && is_unwritten(cell, at, access)) {
    add({"uninitialised memory",
         thread_text(thread) + " of " + block_text(block) + " " + verb(access.kind) + " " +
             bytes_text(access.at, access.bytes, access.extent) + " at %1, which nobody" +
             (access.block_local ? " in the block" : "") + " has written",
         access.where, nullptr});
  }
  if (races_with_write(*cell, access)) {
    const bool same_value_allowed = !(access.kind & kAtomic) && (access.kind & kWrite);
    Finding finding =
        race(access, "wrote", cell->write_thread, cell->write_block, cell->write_where);
    if (same_value_allowed && access.bytes <= kMostOldBytes) {
      if (!*is_pending) pending.finding = std::move(finding);
      *is_pending = true;
    } else {
      add(std::move(finding));
    }
  }
  if (access.kind & kWrite) {
    if (races_with_reads(*cell, access)) {
      add(race(access, "read", cell->read_thread, cell->read_block, cell->read_where));
    }
    note_write(cell, access);
  } else if (!(access.kind & kAtomic)) {
    note_read(cell, access);
  }
}

void look_closely(uintptr_t at, size_t bytes, unsigned kind, const void* where) {
  if (pending.is_set) settle_pending();
  KnownExtent& known = known_extents[reinterpret_cast<uintptr_t>(where) % 1021];
  if (known.version != memory_version() || !known.extent.holds(at, bytes)) {
    known.extent = extent_at(at);
    known.version = memory_version();
    if (known.extent.region == Region::kShared) {
      know_variable(known.extent);
    }
  }
  const Extent& extent = known.extent;
  if (extent.region == Region::kIgnored) return;
  if (extent.region == Region::kConstant && !(kind & kWrite)) return;
  const auto who = [&] { return thread_text(thread) + " of " + block_text(block) + " "; };
  if (extent.region == Region::kConstant) {
    fail_now("memory of the host", who() + "writes a variable of the program at %1", where);
  }
  if (extent.region == Region::kNowhere) {
    fail_now("out of bounds",
             who() + verb(kind) + " " + std::to_string(bytes) + " bytes at %1, " + nearest_to(at),
             where);
  }
  if (extent.region != Region::kUnknown && !extent.holds(at, bytes)) {
    fail_now("out of bounds",
             who() + verb(kind) + " " + bytes_text(at, bytes, extent) + " at %1, beyond its end",
             where);
  }
  if (!(kind & kAnyAlignment) && at % bytes != 0) {
    fail_now("misaligned",
             who() + verb(kind) + " " + bytes_text(at, bytes, extent) + " at %1, and " +
                 std::to_string(at % bytes) + " bytes off the alignment",
             where);
  }
  const Access access{at, bytes, kind, where, extent, is_shared(extent.region)};
  if (!access.block_local && (kind & kAtomic) && (kind & kWrite)) {
    (kind & kRead ? before_atomic : before_volatile_write)(at, bytes);
  }
  bool is_pending = false;
  for_each_cell(at, bytes, [&](Cell* cell, uintptr_t cell_at, size_t) {
    look_at_cell(cell, cell_at, access, &is_pending);
  });
  if (is_pending) {
    pending.is_set = true;
    pending.at = at;
    pending.bytes = bytes;
    std::memcpy(pending.old, reinterpret_cast<const void*>(at), bytes);
  }
}

// Bytes that have changed since this thread went on, and that it has not been seen to write.
void note_unseen_write(const Extent& extent, uintptr_t begin, size_t piece,
                       const unsigned char* before) {
  const Access access{begin, piece, kWrite, nullptr, extent, true};
  bool is_pending = false;
  for_each_cell(begin, piece, [&](Cell* cell, uintptr_t at, size_t bytes) {
    const bool is_seen =
        cell->write_block == block && cell->write_thread == thread && cell->write_epoch == epoch;
    const auto* now = reinterpret_cast<const unsigned char*>(at);
    if (is_seen || std::memcmp(now, before + (at - begin), bytes) == 0) return;
    look_at_cell(cell, at, access, &is_pending);
  });
  if (is_pending) add(std::move(pending.finding));
}

}  // namespace

void look(uintptr_t at, size_t bytes, unsigned kind, const void* where) {
  maybe_pause();
  // The linker may have taken the standard library's templates from an object of kernels.
  void* const before = watched;
  watched = nullptr;
  look_closely(at, bytes, kind, where);
  watched = before;
}

void fail_index(const char* file, unsigned line, const char* array, long long index) {
  watched = nullptr;
  fail_now("out of bounds",
           thread_text(thread) + " of " + block_text(block) + " takes element " +
               std::to_string(index) + " of an array " + array + " at " + short_path(file) + ":" +
               std::to_string(line),
           nullptr);
}

void begin_launch(const Launch& begun) {
  launch_mutex.lock();
  launch = begun;
  locate_program();
  first_block = blocks_begun + 1;
  linear_block.clear();
  findings.clear();
  known_findings.clear();
  begin_variables(launch.kernel);
  for (KnownExtent& known : known_extents) known.version = 0;
  pending.is_set = false;
  begin_schedule();
  const std::string fault = fault_of_parameters(launch.parameter_bytes);
  if (fault.empty()) return;
  launch_mutex.unlock();
  throw std::runtime_error("CUDA check: " + kernel_name() + ": " + fault);
}

void end_launch() {
  const size_t shared = launch.shared_bytes + variable_bytes();
  end_variables(launch.kernel);
  const std::string fault = fault_of_shared(shared, launch.shared_bytes);
  if (!fault.empty()) findings.push_back({"too much shared memory", fault, nullptr, nullptr});
  const std::string text = findings.empty() ? "" : describe(kernel_name(), findings);
  findings.clear();
  launch_mutex.unlock();
  if (!text.empty()) throw_or_log(text);
}

void drop_launch() noexcept {
  watched = nullptr;
  end_schedule_of_block();
  end_variables(launch.kernel);
  findings.clear();
  pending.is_set = false;
  launch_mutex.unlock();
}

void begin_block(size_t linear, void* shared) {
  block = ++blocks_begun;
  linear_block.push_back(linear);
  epoch = 0;
  fill_variables();
  set_dynamic_shared(reinterpret_cast<uintptr_t>(shared), launch.shared_bytes);
  begin_schedule_of_block();
}

void end_block() {
  if (pending.is_set) settle_pending();
  end_schedule_of_block();
}

void enter_thread(unsigned entered, const void* stack, size_t stack_bytes) {
  thread = entered;
  warp = entered / 32;
  lane = entered % 32;
  own_stack = reinterpret_cast<uintptr_t>(stack);
  own_stack_bytes = stack_bytes;
}

bool set_active(bool active) {
  const bool before = watched != nullptr;
  watched = nullptr;
  if (pending.is_set && !active) settle_pending();
  if (before && !active) for_each_change(note_unseen_write);
  watched = active ? __builtin_thread_pointer() : nullptr;
  return before;
}

void order_block() { ++epoch; }

void order_warp(unsigned of, unsigned lanes) {
  const uint32_t now = ++barriers[of];
  uint32_t joint[32] = {};
  for (unsigned other = 0; other < 32; ++other) {
    if (!(lanes >> other & 1)) continue;
    for (unsigned i = 0; i < 32; ++i) joint[i] = std::max(joint[i], seen[of][other][i]);
  }
  for (unsigned other = 0; other < 32; ++other) {
    if (lanes >> other & 1) joint[other] = now;
  }
  for (unsigned other = 0; other < 32; ++other) {
    if (lanes >> other & 1) std::memcpy(seen[of][other], joint, sizeof(joint));
  }
}

void touch_atomically(void* address, size_t bytes, const void* where) {
  access(address, bytes, kRead | kWrite | kAtomic, where);
}

std::string kernel_name() { return function_name(launch.kernel); }

std::unique_lock<std::recursive_mutex> between_launches() {
  return std::unique_lock<std::recursive_mutex>(launch_mutex);
}

}  // namespace cuda_emulation::check
