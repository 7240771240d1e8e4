// Loads, stores and atomics.
//
// Addresses of global and generic memory are those of the host; shared memory, parameters and local
// memory have offsets of their own. The alignment and bounds of every access are checked.
#include <algorithm>
#include <cstring>

#include "select.h"

namespace ptx {
namespace {

constexpr uint64_t kLowest = 65536;  // what is below is a null pointer and a few steps

void addresses(Warp& w, const Instruction& i, uint64_t* to) {
  if (i.wide) {
    const uint64_t* a = w.at<uint64_t>(i.a);
    PTX_LANES to[l] = a[l] + static_cast<uint64_t>(i.offset);
  } else {
    const uint32_t* a = w.at<uint32_t>(i.a);
    PTX_LANES to[l] = static_cast<uint32_t>(a[l] + static_cast<uint32_t>(i.offset));
  }
}

std::string hexadecimal(uint64_t n) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(n));
  return text;
}

[[noreturn]] __attribute__((noinline)) void misaligned(const Warp& w, const Instruction& i, int l,
                                                       uint64_t address, size_t bytes) {
  fail(w, i, l,
       "an access of " + std::to_string(bytes) + " bytes is misaligned at " + hexadecimal(address));
}
[[noreturn]] __attribute__((noinline)) void outside(const Warp& w, const Instruction& i, int l,
                                                    const char* what, uint64_t address,
                                                    size_t bytes, size_t size) {
  fail(w, i, l,
       std::string("an access of ") + std::to_string(bytes) + " bytes at " + hexadecimal(address) +
           " is outside of " + what + " of " + std::to_string(size) + " bytes");
}

inline unsigned char* in_shared(Warp& w, const Instruction& i, int l, uint64_t address,
                                size_t bytes, bool writes) {
  Launch& launch = *w.launch;
  if (address + bytes > launch.shared_bytes || address > launch.shared_bytes) {
    outside(w, i, l, "shared memory", address, bytes, launch.shared_bytes);
  }
  if (writes) std::memset(launch.shared_written + address, 1, bytes);
  return launch.shared + address;
}

template <Space space, bool writes>
inline unsigned char* locate(Warp& w, const Instruction& i, int l, uint64_t address, size_t bytes) {
  Launch& launch = *w.launch;
  if (address & (bytes - 1)) misaligned(w, i, l, address, bytes);
  if constexpr (space == Space::kShared) {
    return in_shared(w, i, l, address, bytes, writes);
  } else if constexpr (space == Space::kParam) {
    if (address + bytes > launch.parameter_bytes)
      outside(w, i, l, "the parameters", address, bytes, launch.parameter_bytes);
    return const_cast<unsigned char*>(launch.parameters) + address;
  } else if constexpr (space == Space::kLocal) {
    const size_t size = launch.kernel->local_bytes;
    if (address + bytes > size || address > size)
      outside(w, i, l, "local memory", address, bytes, size);
    return w.local + static_cast<size_t>(l) * size + address;
  } else {
    if constexpr (space == Space::kGeneric) {
      const uint64_t shared = reinterpret_cast<uint64_t>(launch.shared);
      if (address - shared < launch.shared_bytes)
        return in_shared(w, i, l, address - shared, bytes, writes);
      const uint64_t local = reinterpret_cast<uint64_t>(w.local);
      const size_t size = launch.kernel->local_bytes;
      if (address - local < size * kLanes) {
        if (address - local < l * size || address + bytes - local > (l + 1) * size)
          outside(w, i, l, "the thread's local memory", address, bytes, size);
        return reinterpret_cast<unsigned char*>(address);
      }
    }
    if (address < kLowest || address >> 47) outside(w, i, l, "all memory", address, bytes, 0);
    check_global(w, i, l, address, bytes, writes);
    if (writes && launch.before != nullptr) remember(launch, address, bytes);
    return reinterpret_cast<unsigned char*>(address);
  }
}

template <Space space, bool writes>
void count_if_asked(Warp& w, const Instruction& i, const uint64_t* at) {
  if (!w.launch->counts || space == Space::kLocal || space == Space::kParam) return;
  count_access(w, i, at, space == Space::kShared, writes);
}

template <Space space, class Memory, class Register>
void load(Warp& w, const Instruction& i) {
  uint64_t at[kLanes];
  addresses(w, i, at);
  w.launch->now = &i;
  count_if_asked<space, false>(w, i, at);
  const size_t bytes = i.access_bytes;
  const int numbers = static_cast<int>(bytes / sizeof(Memory));
  Register* d[4] = {};
  for (int k = 0; k < numbers; ++k) d[k] = i.v[k] == kNowhere ? nullptr : w.at<Register>(i.v[k]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(w.active >> l & 1)) continue;
    const unsigned char* from = locate<space, false>(w, i, l, at[l], bytes);
    for (int k = 0; k < numbers; ++k) {
      Memory value;
      std::memcpy(&value, from + k * sizeof(Memory), sizeof(value));
      if (d[k] != nullptr) d[k][l] = static_cast<Register>(value);
    }
  }
}

template <Space space, class Memory, class Register>
void store(Warp& w, const Instruction& i) {
  uint64_t at[kLanes];
  addresses(w, i, at);
  w.launch->now = &i;
  count_if_asked<space, true>(w, i, at);
  const size_t bytes = i.access_bytes;
  const int numbers = static_cast<int>(bytes / sizeof(Memory));
  const Register* a[4] = {};
  for (int k = 0; k < numbers; ++k) a[k] = w.at<Register>(i.v[k]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(w.active >> l & 1)) continue;
    unsigned char* to = locate<space, true>(w, i, l, at[l], bytes);
    for (int k = 0; k < numbers; ++k) {
      const Memory value = static_cast<Memory>(a[k][l]);
      std::memcpy(to + k * sizeof(Memory), &value, sizeof(value));
    }
  }
}

struct AtomAdd {
  static float of(float old, float v, float) { return old + v; }
  static double of(double old, double v, double) { return old + v; }
  template <class T>
  static T of(T old, T v, T) {
    return static_cast<T>(old + v);
  }
};
#define PTX_ATOMIC(name, changed)  \
  struct name {                    \
    template <class T>             \
    static T of(T old, T v, T w) { \
      static_cast<void>(w);        \
      return changed;              \
    }                              \
  };
PTX_ATOMIC(AtomMin, v < old ? v : old)
PTX_ATOMIC(AtomMax, v > old ? v : old)
PTX_ATOMIC(AtomAnd, old& v)
PTX_ATOMIC(AtomOr, old | v)
PTX_ATOMIC(AtomXor, old ^ v)
PTX_ATOMIC(AtomExch, (static_cast<void>(old), v))
PTX_ATOMIC(AtomCas, old == v ? w : old)
#undef PTX_ATOMIC

// d (or nothing): what was there; b and c: operands.
template <Space space, class Op, class T>
void atomic(Warp& w, const Instruction& i) {
  uint64_t at[kLanes];
  addresses(w, i, at);
  w.launch->now = &i;
  count_if_asked<space, true>(w, i, at);
  for (int l = 0; l < kLanes; ++l) {
    if (!(w.active >> l & 1)) continue;
    const T b = w.at<T>(i.b)[l], c = i.c == kNowhere ? T{} : w.at<T>(i.c)[l];
    locate<space, false>(w, i, l, at[l], sizeof(T));
    unsigned char* to = locate<space, true>(w, i, l, at[l], sizeof(T));
    T old;
    std::memcpy(&old, to, sizeof(old));
    const T changed = Op::of(old, b, c);
    std::memcpy(to, &changed, sizeof(changed));
    if (i.d != kNowhere) w.at<T>(i.d)[l] = old;
  }
}

template <Space space, class Memory, bool stores>
Run of_register(int bits) {
  if constexpr (stores) {
    return bits == 16   ? store<space, Memory, uint16_t>
           : bits == 32 ? store<space, Memory, uint32_t>
                        : store<space, Memory, uint64_t>;
  } else {
    return bits == 16   ? load<space, Memory, uint16_t>
           : bits == 32 ? load<space, Memory, uint32_t>
                        : load<space, Memory, uint64_t>;
  }
}
template <Space space, bool stores>
Run of_type(const std::string& type, int bits) {
  if (type == "u8" || type == "b8") return of_register<space, uint8_t, stores>(bits);
  if (type == "s8") return of_register<space, int8_t, stores>(bits);
  if (type == "u16" || type == "b16") return of_register<space, uint16_t, stores>(bits);
  if (type == "s16") return of_register<space, int16_t, stores>(bits);
  if (type == "u32" || type == "b32" || type == "f32")
    return of_register<space, uint32_t, stores>(bits);
  if (type == "s32") return of_register<space, int32_t, stores>(bits);
  if (type == "u64" || type == "b64" || type == "f64" || type == "s64")
    return of_register<space, uint64_t, stores>(bits);
  return nullptr;
}

template <Space space>
Run atomic_in(const std::string& op, const std::string& type) {
#define PTX_CASE(name, Op, T) \
  if (op + "." + type == name) return atomic<space, Op, T>;
  PTX_CASE("add.u32", AtomAdd, uint32_t)
  PTX_CASE("add.s32", AtomAdd, uint32_t)
  PTX_CASE("add.u64", AtomAdd, uint64_t)
  PTX_CASE("add.f32", AtomAdd, float)
  PTX_CASE("add.f64", AtomAdd, double)
  PTX_CASE("min.u32", AtomMin, uint32_t)
  PTX_CASE("min.s32", AtomMin, int32_t)
  PTX_CASE("min.u64", AtomMin, uint64_t)
  PTX_CASE("min.s64", AtomMin, int64_t)
  PTX_CASE("max.u32", AtomMax, uint32_t)
  PTX_CASE("max.s32", AtomMax, int32_t)
  PTX_CASE("max.u64", AtomMax, uint64_t)
  PTX_CASE("max.s64", AtomMax, int64_t)
  PTX_CASE("and.b32", AtomAnd, uint32_t)
  PTX_CASE("or.b32", AtomOr, uint32_t)
  PTX_CASE("or.b64", AtomOr, uint64_t)
  PTX_CASE("xor.b32", AtomXor, uint32_t)
  PTX_CASE("xor.b64", AtomXor, uint64_t)
  PTX_CASE("exch.b32", AtomExch, uint32_t)
  PTX_CASE("exch.b64", AtomExch, uint64_t)
  PTX_CASE("cas.b32", AtomCas, uint32_t)
  PTX_CASE("cas.b64", AtomCas, uint64_t)
#undef PTX_CASE
  return nullptr;
}

// cvta: generic addresses are the host's.
template <bool to>
void shared_address(Warp& w, const Instruction& i) {
  const uint64_t shared = reinterpret_cast<uint64_t>(w.launch->shared);
  for (int l = 0; l < kLanes; ++l) {
    if (w.active >> l & 1)
      w.at<uint64_t>(i.d)[l] = w.at<uint64_t>(i.a)[l] + (to ? uint64_t{0} - shared : shared);
  }
}
template <bool to>
void local_address(Warp& w, const Instruction& i) {
  for (int l = 0; l < kLanes; ++l) {
    const uint64_t local = reinterpret_cast<uint64_t>(w.local) +
                           static_cast<uint64_t>(l) * w.launch->kernel->local_bytes;
    if (w.active >> l & 1)
      w.at<uint64_t>(i.d)[l] = w.at<uint64_t>(i.a)[l] + (to ? uint64_t{0} - local : local);
  }
}
void param_address(Warp& w, const Instruction& i) {
  const uint64_t parameters = reinterpret_cast<uint64_t>(w.launch->parameters);
  for (int l = 0; l < kLanes; ++l) {
    if (w.active >> l & 1) w.at<uint64_t>(i.d)[l] = w.at<uint64_t>(i.a)[l] + parameters;
  }
}

}  // namespace

Run find_load(Space space, const std::string& type, int bits) {
  switch (space) {
    case Space::kGlobal: return of_type<Space::kGlobal, false>(type, bits);
    case Space::kGeneric: return of_type<Space::kGeneric, false>(type, bits);
    case Space::kShared: return of_type<Space::kShared, false>(type, bits);
    case Space::kLocal: return of_type<Space::kLocal, false>(type, bits);
    case Space::kParam: return of_type<Space::kParam, false>(type, bits);
  }
  return nullptr;
}
Run find_store(Space space, const std::string& type, int bits) {
  switch (space) {
    case Space::kGlobal: return of_type<Space::kGlobal, true>(type, bits);
    case Space::kGeneric: return of_type<Space::kGeneric, true>(type, bits);
    case Space::kShared: return of_type<Space::kShared, true>(type, bits);
    case Space::kLocal: return of_type<Space::kLocal, true>(type, bits);
    default: return nullptr;
  }
}
Run find_atomic(Space space, const std::string& operation, const std::string& type) {
  if (space == Space::kGlobal) return atomic_in<Space::kGlobal>(operation, type);
  if (space == Space::kGeneric) return atomic_in<Space::kGeneric>(operation, type);
  if (space == Space::kShared) return atomic_in<Space::kShared>(operation, type);
  return nullptr;
}
Run address_of_shared(bool to_shared) {
  return to_shared ? shared_address<true> : shared_address<false>;
}
Run address_of_local(bool to_local) {
  return to_local ? local_address<true> : local_address<false>;
}
Run address_of_param() { return param_address; }

}  // namespace ptx
