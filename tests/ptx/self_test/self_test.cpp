// Instructions at their corners, divergence, costs and what must be refused: hand-written PTX, and
// what the PTX ISA says that it does. `make test-ptx` runs it.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "interpreter/code.h"

using namespace ptx;

namespace {

int failures = 0;
std::string file;  // where kernels are written
std::vector<std::string> logged;

// A kernel `k(u64 out, u64 in)`; thread i has %rd1 = out + 8 * i and %rd2 = in + 8 * i.
std::unique_ptr<Kernel> make(const std::string& body, const std::string& shared = "",
                             const std::string& functions = "") {
  const std::string path = file;
  std::ofstream(path) << ".version 9.0\n.target sm_80\n.address_size 64\n"
                      << functions
                      << ".entry k(\n.param .u64 "
                         "k_param_0,\n.param .u64 k_param_1\n)\n{\n"
                      << shared
                      << ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<20>;\n.reg .b64 "
                         "%rd<20>;\n.reg .f32 %f<9>;\n.reg .f64 %fd<9>;\n"
                      << "ld.param.u64 %rd3, [k_param_0];\nld.param.u64 %rd4, "
                         "[k_param_1];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd5, %r1, 8;\n"
                      << "add.s64 %rd1, %rd3, %rd5;\nadd.s64 %rd2, %rd4, %rd5;\n"
                      << body << "\nret;\n}\n";
  const Module module(path);
  auto kernel = decode(module.parse(module.entries().at(0)));
  kernel->plain_name = "k";
  return kernel;
}

std::vector<uint64_t> run_kernel(Kernel& kernel, const std::vector<uint64_t>& in, unsigned threads,
                                 uint64_t seed = 0, bool checks = false, bool counts = false) {
  std::vector<uint64_t> out(threads, 0);
  // At the beginning of a line of 128 bytes, as memory of a GPU lies: lines are counted.
  std::vector<uint64_t> with_room(in.size() + 16);
  const size_t past = reinterpret_cast<uintptr_t>(with_room.data()) % 128 / sizeof(uint64_t);
  uint64_t* const given = with_room.data() + (16 - past) % 16;
  std::copy(in.begin(), in.end(), given);
  alignas(64) uint64_t parameters[2] = {reinterpret_cast<uint64_t>(out.data()),
                                        reinterpret_cast<uint64_t>(given)};
  Launch launch;
  launch.kernel = &kernel;
  for (int k = 0; k < 3; ++k) launch.grid[k] = launch.block[k] = 1;
  launch.block[0] = threads;
  launch.parameters = reinterpret_cast<unsigned char*>(parameters);
  launch.parameter_bytes = 16;
  launch.shared_bytes = kernel.shared_bytes;
  launch.random = seed;
  launch.checks = checks;
  Touched touched;
  launch.counts = counts;
  launch.touched = &touched;
  run(launch);
  kernel.touched = touched.bytes();
  kernel.longest = launch.longest;
  return out;
}

uint64_t bits(double x) {
  uint64_t b;
  std::memcpy(&b, &x, 8);
  return b;
}
uint64_t bits(float x) {
  uint32_t b;
  std::memcpy(&b, &x, 4);
  return b;
}

void expect(const std::string& what, uint64_t found, uint64_t wanted) {
  if (found == wanted) return;
  ++failures;
  std::printf("%s: %016llx, expected %016llx\n", what.c_str(),
              static_cast<unsigned long long>(found), static_cast<unsigned long long>(wanted));
}

// One input, one output; the body moves %rd6 (what was read) to %rd7 (what is written).
void check(const std::string& body, uint64_t in, uint64_t wanted) {
  auto kernel = make(
      "ld.global.u64 %rd6, [%rd2];\nmov.u64 %rd7, 0;\ncvt.u32.u64 %r2, %rd6;\nmov.b64 %fd1, "
      "%rd6;\nmov.b32 %f1, %r2;\n" +
      body + "\nst.global.u64 [%rd1], %rd7;");
  expect(body, run_kernel(*kernel, {in}, 1)[0], wanted);
}
void check32(const std::string& body, uint64_t in, uint64_t wanted) {
  check(body + "\ncvt.u64.u32 %rd7, %r3;", in, wanted);
}
void checkf(const std::string& body, uint64_t in, uint64_t wanted) {
  check(body + "\nmov.b32 %r3, %f2;\ncvt.u64.u32 %rd7, %r3;", in, wanted);
}

template <class Work>
void refuses(const std::string& what, const std::string& wanted, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (std::string(error.what()).find(wanted) != std::string::npos) return;
    std::printf("%s: said %s\n", what.c_str(), error.what());
    ++failures;
    return;
  }
  std::printf("%s: was not refused\n", what.c_str());
  ++failures;
}
void notes(const std::string& what, const std::string& wanted) {
  for (const std::string& text : logged) {
    if (text.find(wanted) != std::string::npos) return;
  }
  std::printf("%s: was not noted\n", what.c_str());
  ++failures;
}

void arithmetic() {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  // Shifts by the width and more.
  check32("shl.b32 %r3, %r2, 32;", 5, 0);
  check32("shl.b32 %r3, 1, %r2;", 31, 0x80000000u);
  check32("shr.s32 %r3, %r2, 99;", 0x80000000u, 0xffffffffu);
  check32("shr.u32 %r3, %r2, 32;", 0x80000000u, 0);
  check("shr.s64 %rd7, %rd6, 70;", uint64_t{1} << 63, ~uint64_t{0});
  check("shl.b64 %rd7, %rd6, 64;", 1, 0);
  // Products.
  check32("mul.hi.u32 %r3, %r2, 3;", 0xffffffffu, 2);
  check32("mul.hi.s32 %r3, %r2, 3;", 0xffffffffu, 0xffffffffu);
  check("mul.wide.s32 %rd7, %r2, -2;", 0x80000000u, uint64_t{1} << 32);
  check("mul.wide.u32 %rd7, %r2, 2;", 0x80000000u, uint64_t{1} << 32);
  check("mul.hi.u64 %rd7, %rd6, 16;", 0x8123456789abcdefu, 8);
  check32("mad.lo.s32 %r3, %r2, 3, -1;", 7, 20);
  check("mad.wide.s32 %rd7, %r2, 5, %rd6;", 0xffffffffu, 0xfffffffau);
  // Quotients round towards 0; the remainder has the sign of the dividend.
  check32("div.s32 %r3, %r2, 4;", static_cast<uint32_t>(-7), 0xffffffffu);
  check32("rem.s32 %r3, %r2, 4;", static_cast<uint32_t>(-7), static_cast<uint32_t>(-3));
  check("div.s64 %rd7, %rd6, -1;", uint64_t{1} << 63, uint64_t{1} << 63);
  // Bits.
  check32("bfind.u32 %r3, %r2;", 0x00010000, 16);
  check32("bfind.shiftamt.u32 %r3, %r2;", 0x00010000, 15);
  check32("bfind.u32 %r3, %r2;", 0, 0xffffffffu);
  check32("brev.b32 %r3, %r2;", 1, 0x80000000u);
  check32("popc.b64 %r3, %rd6;", 0xf0f000000000000fu, 12);
  check32("clz.b32 %r3, %r2;", 0, 32);
  check32("bfe.u32 %r3, %r2, 4, 8;", 0xabcd, 0xbc);
  check32("bfe.s32 %r3, %r2, 4, 8;", 0xabcd, 0xffffffbcu);
  check32("bfi.b32 %r3, %r2, -1, 8, 4;", 0, 0xfffff0ffu);
  check("bfi.b64 %rd7, %rd6, 0, 63, 1;", 3, uint64_t{1} << 63);
  check32("prmt.b32 %r3, %r2, 0x77665544, 0x7240;", 0x80112233, 0x77114433u);
  check32("prmt.b32 %r3, %r2, 0, 0xba98;", 0x80112233u, 0xff000000u);
  check32("lop3.b32 %r3, %r2, 0xcc, 0xaa, 0x96;", 0xf0, 0x96);
  check32("shf.r.wrap.b32 %r3, %r2, 0x1, 33;", 2, 0x80000001u);
  check32("shf.l.wrap.b32 %r3, %r2, 0x1, 4;", 0xa0000000u, 0x1a);
  check32("shf.r.clamp.b32 %r3, %r2, 0x77, 40;", 2, 0x77);
  check32("dp2a.lo.s32.s32 %r3, %r2, 0x7f02ff03, 10;", 0x0002ffff, 10 - 3 - 2);
  check32("dp2a.hi.s32.s32 %r3, %r2, 0x7f02ff03, 10;", 0x0002ffff, 10 - 2 + 254);
  check32("{ .reg .b32 %t; mov.u32 %t, 4; add.s32 %r3, %r2, %t; }", 3, 7);
  check32("min.s32 %r3, %r2, 5;", static_cast<uint32_t>(-4), static_cast<uint32_t>(-4));
  check32("min.u32 %r3, %r2, 5;", static_cast<uint32_t>(-4), 5);
  // Sub-word registers.
  check("cvt.u16.u64 %rs1, %rd6;\nmul.lo.s16 %rs2, %rs1, %rs1;\ncvt.u64.u16 %rd7, %rs2;", 0xffff,
        1);
  check("cvt.u16.u64 %rs1, %rd6;\ncvt.s64.s8 %rd7, %rs1;", 0x80, 0xffffffffffffff80u);
  check("cvt.u16.u64 %rs1, %rd6;\nshl.b16 %rs2, %rs1, 9;\ncvt.u64.u16 %rd7, %rs2;", 0xff, 0xfe00);
  // Floating point.
  const auto f = [](float x) { return bits(x); };
  checkf("add.rn.f32 %f2, %f1, 0f3F800000;", f(1e30f), f(1e30f));
  checkf("add.rn.f32 %f2, %f1, %f1;", f(1e-45f), f(2.8e-45f));  // subnormal
  checkf("sub.rn.f32 %f2, %f1, %f1;", f(inf), 0x7fffffffu);
  checkf("add.rn.f32 %f2, %f1, 0f3F800000;", 0xffc12345u, 0x7fffffffu);
  checkf("add.rz.f32 %f2, %f1, 0f3F7FFFFF;", f(16777216.0f), f(16777216.0f));
  checkf("add.rn.f32 %f2, %f1, 0f40400000;", f(16777216.0f), f(16777220.0f));
  checkf("add.rz.f32 %f2, %f1, 0f40400000;", f(16777216.0f), f(16777218.0f));
  checkf("min.f32 %f2, %f1, 0f3F800000;", f(nan), f(1.0f));
  checkf("min.f32 %f2, %f1, 0f00000000;", f(-0.0f), f(-0.0f));
  checkf("max.f32 %f2, %f1, 0f00000000;", f(-0.0f), f(0.0f));
  checkf("max.f32 %f2, %f1, %f1;", f(nan), 0x7fffffffu);
  checkf("neg.f32 %f2, %f1;", f(0.0f), f(-0.0f));
  checkf("abs.f32 %f2, %f1;", f(-2.5f), f(2.5f));
  checkf("copysign.f32 %f2, %f1, 0f40000000;", f(-3.0f), f(-2.0f));
  checkf("div.rn.f32 %f2, %f1, 0f40400000;", f(1.0f), f(1.0f / 3.0f));
  checkf("rcp.rn.f32 %f2, %f1;", f(-0.0f), f(-inf));
  checkf("sqrt.rn.f32 %f2, %f1;", f(-1.0f), 0x7fffffffu);
  checkf("fma.rn.f32 %f2, %f1, %f1, 0fBF800002;", f(1.0000001f),
         f(std::fma(1.0000001f, 1.0000001f, -1.0000002f)));
  check("fma.rn.f64 %fd2, %fd1, %fd1, 0dBFF0000000000000;\nmov.b64 %rd7, %fd2;",
        bits(1.0 + 0x1p-52), bits(0x1p-51 + 0x1p-104));
  // Comparisons with NaN.
  const auto cmp = [](const char* how) {
    return std::string("setp.") + how + ".f32 %p1, %f1, 0f3F800000;\nselp.b32 %r3, 1, 0, %p1;";
  };
  for (const char* how : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) check32(cmp(how), f(nan), 0);
  for (const char* how : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"})
    check32(cmp(how), f(nan), 1);
  check32(cmp("ne"), f(2.0f), 1);
  check32(cmp("equ"), f(1.0f), 1);
  check32(cmp("neu"), f(1.0f), 0);
  check32("setp.lt.s32 %p1|%p2, %r2, 0;\nselp.b32 %r3, 4, 2, %p2;", static_cast<uint32_t>(-1), 2);
  check32("setp.ne.s32 %p1, %r2, 0;\nsetp.lt.and.s32 %p2, %r2, 9, !%p1;\nselp.b32 %r3, 4, 2, %p2;",
          5, 2);
  // Conversions.
  check32("cvt.rzi.s32.f32 %r3, %f1;", f(-2.7f), static_cast<uint32_t>(-2));
  check32("cvt.rmi.s32.f32 %r3, %f1;", f(-2.7f), static_cast<uint32_t>(-3));
  check32("cvt.rni.s32.f32 %r3, %f1;", f(2.5f), 2);
  check32("cvt.rzi.s32.f32 %r3, %f1;", f(3e9f), 0x7fffffff);
  check32("cvt.rzi.u32.f32 %r3, %f1;", f(-3.0f), 0);
  check32("cvt.rzi.u32.f32 %r3, %f1;", f(5e9f), 0xffffffffu);
  check32("cvt.rzi.s32.f32 %r3, %f1;", f(nan), 0);
  check32("cvt.rzi.s32.f64 %r3, %fd1;", bits(std::nan("")), 0x80000000u);
  check("cvt.rzi.s64.f64 %rd7, %fd1;", bits(1e300), 0x7fffffffffffffffu);
  check("cvt.rzi.s64.f32 %rd7, %f1;", f(nan), uint64_t{1} << 63);
  check("cvt.rzi.u64.f64 %rd7, %fd1;", bits(1.8446744073709550e19), 0xfffffffffffff800u);
  checkf("cvt.rn.f32.f64 %f2, %fd1;", bits(1.0 + 0x1p-24), f(1.0f));
  checkf("cvt.rn.f32.s64 %f2, %rd6;", 0x7fffffffffffffffu, f(9223372036854775808.0f));
  checkf("cvt.rn.f32.u64 %f2, %rd6;", 0xffffffffffffffffu, f(18446744073709551616.0f));
  checkf("cvt.rn.f32.u32 %f2, %r2;", 0xffffffffu, f(4294967296.0f));
  checkf("cvt.rn.f32.s32 %f2, %r2;", 0xffffffffu, f(-1.0f));
  check(
      "cvt.u16.u64 %rs1, %rd6;\ncvt.rn.f32.s16 %f2, %rs1;\nmov.b32 %r3, %f2;\ncvt.u64.u32 %rd7, "
      "%r3;",
      0x8000, f(-32768.0f));
  check(
      "cvt.u16.u64 %rs1, %rd6;\ncvt.f32.f16 %f2, %rs1;\nmov.b32 %r3, %f2;\ncvt.u64.u32 %rd7, %r3;",
      0x0001, f(0x1p-24f));
  check(
      "cvt.u16.u64 %rs1, %rd6;\ncvt.f32.f16 %f2, %rs1;\nmov.b32 %r3, %f2;\ncvt.u64.u32 %rd7, %r3;",
      0xfc00, f(-inf));
  check(
      "cvt.u16.u64 %rs1, %rd6;\ncvt.f32.f16 %f2, %rs1;\nmov.b32 %r3, %f2;\ncvt.u64.u32 %rd7, %r3;",
      0xbc01, f(-1.0009765625f));
  check("cvt.rn.f16.f32 %rs1, %f1;\ncvt.u64.u16 %rd7, %rs1;", f(65519.0f), 0x7bff);
  check("cvt.rn.f16.f32 %rs1, %f1;\ncvt.u64.u16 %rd7, %rs1;", f(65520.0f), 0x7c00);
  check("cvt.rn.f16.f32 %rs1, %f1;\ncvt.u64.u16 %rd7, %rs1;", f(0x1.002p0f), 0x3c00);
  check("cvt.rn.f16.f32 %rs1, %f1;\ncvt.u64.u16 %rd7, %rs1;", f(-0x1.ffep0f), 0xc000);
  check("cvt.rn.f16.f32 %rs1, %f1;\ncvt.u64.u16 %rd7, %rs1;", f(0x1.8p-25f), 0x0001);
  const auto bfloat16 = [&](uint64_t in, uint64_t wanted) {
    check("cvt.rn.bf16.f32 %rs1, %f1;\ncvt.u64.u16 %rd7, %rs1;", in, wanted);
  };
  bfloat16(0x3f808000u, 0x3f80);  // the middle, to even
  bfloat16(0x3f818000u, 0x3f82);
  bfloat16(0x3f808001u, 0x3f81);
  bfloat16(0xff7fffffu, 0xff80);  // beyond the largest
  bfloat16(0x00008001u, 0x0001);
  bfloat16(0xff800001u, 0x7fff);
  checkf("cvt.rni.f32.f32 %f2, %f1;", f(-0.5f), f(-0.0f));
  checkf("cvt.rpi.f32.f32 %f2, %f1;", f(1.25f), f(2.0f));
  // Vectors.
  check("mov.b64 {%r3, %r4}, %rd6;\nmov.b64 %rd7, {%r4, %r3};", 0x1111111122222222u,
        0x2222222211111111u);
  check(
      "mov.b32 %r3, {%rs1, %rs1};\nmov.b32 {%rs2, _}, %r2;\nmov.b32 %r3, {%rs2, "
      "%rs2};\ncvt.u64.u32 %rd7, %r3;",
      0xabcd1234u, 0x12341234u);
}

void lanes() {
  const std::vector<uint64_t> in(64, 7);
  const auto every = [&](const std::string& what, const std::string& body, unsigned threads,
                         uint64_t (*wanted)(unsigned)) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      auto kernel = make(body + "\ncvt.u64.u32 %rd7, %r9;\nst.global.u64 [%rd1], %rd7;",
                         ".shared .align 4 .b8 s[512];\n");
      const auto out = run_kernel(*kernel, in, threads, seed);
      for (unsigned l = 0; l < threads; ++l)
        expect(what + " " + std::to_string(l), out[l], wanted(l));
    }
  };
  every("down", "shfl.sync.down.b32 %r9|%p1, %r1, 3, 31, -1;", 32,
        [](unsigned l) -> uint64_t { return l + 3 < 32 ? l + 3 : l; });
  every("down of 8", "shfl.sync.down.b32 %r9|%p1, %r1, 3, 0x181f, -1;", 32,
        [](unsigned l) -> uint64_t { return l % 8 + 3 < 8 ? l + 3 : l; });
  every("up", "shfl.sync.up.b32 %r9, %r1, 1, 0, -1;", 32,
        [](unsigned l) -> uint64_t { return l == 0 ? 0 : l - 1; });
  every("bfly", "shfl.sync.bfly.b32 %r9, %r1, 16, 31, -1;", 32,
        [](unsigned l) -> uint64_t { return l ^ 16; });
  every("idx", "shfl.sync.idx.b32 %r9, %r1, 35, 31, -1;", 32,
        [](unsigned) -> uint64_t { return 3; });
  every("idx of 16", "shfl.sync.idx.b32 %r9, %r1, 3, 0x101f, -1;", 32,
        [](unsigned l) -> uint64_t { return l / 16 * 16 + 3; });
  every("ballot",
        "and.b32 %r2, %r1, 1;\nsetp.ne.s32 %p1, %r2, 0;\nvote.sync.ballot.b32 %r9, %p1, -1;", 32,
        [](unsigned) -> uint64_t { return 0xaaaaaaaau; });
  every("redux", "redux.sync.max.u32 %r9, %r1, -1;", 32, [](unsigned) -> uint64_t { return 31; });
  // Two halves of a warp, each with masks of its own, in loops of different length.
  every("divergence",
        "mov.u32 %r9, 0;\nmov.u32 %r3, %r1;\n$L1:\nsetp.eq.s32 %p1, %r3, 0;\n@%p1 bra "
        "$L2;\nadd.s32 %r9, %r9, %r3;\nadd.s32 %r3, %r3, -1;\nbra.uni $L1;\n$L2:\n"
        "setp.lt.u32 %p2, %r1, 16;\n@%p2 bra $L3;\nshfl.sync.bfly.b32 %r9, %r9, 1, 31, "
        "0xffff0000;\nbra.uni $L4;\n$L3:\nshfl.sync.bfly.b32 %r9, %r9, 2, 31, "
        "0xffff;\n$L4:\nbar.warp.sync -1;",
        32, [](unsigned l) -> uint64_t {
          const unsigned n = l < 16 ? l ^ 2 : l ^ 1;
          return n * (n + 1) / 2;
        });
  // Through shared memory, with a barrier.
  every("barrier",
        "mov.u32 %r2, s;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\nst.shared.u32 [%r4], "
        "%r1;\nbar.sync 0;\nxor.b32 %r5, %r3, 128;\nadd.s32 %r5, %r2, %r5;\nld.shared.u32 %r9, "
        "[%r5];",
        64, [](unsigned l) -> uint64_t { return l ^ 32; });
  // A lane waits for what another one writes.
  every("a lock",
        "mov.u32 %r2, s;\nsetp.eq.s32 %p1, %r1, 5;\nsetp.eq.s32 %p3, %r1, 0;\n@!%p3 bra "
        "$L0;\nst.volatile.shared.u32 [%r2], 0;\n$L0:\nbar.warp.sync -1;\n@!%p1 bra "
        "$L1;\n$L2:\nld.volatile.shared.u32 %r3, [%r2];\nsetp.eq.s32 %p2, %r3, 0;\n@%p2 bra "
        "$L2;\nbra.uni $L3;\n$L1:\n"
        "setp.ne.s32 %p4, %r1, 9;\n@%p4 bra $L3;\nst.volatile.shared.u32 [%r2], 1;\n$L3:\nmov.u32 "
        "%r9, 1;",
        32, [](unsigned) -> uint64_t { return 1; });
  every("atomics",
        "mov.u32 %r2, s;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra $L1;\nst.shared.u32 [%r2], "
        "0;\n$L1:\nbar.sync 0;\natom.shared.add.u32 %r3, [%r2], 2;\nbar.sync 0;\nld.shared.u32 "
        "%r9, [%r2];",
        64, [](unsigned) -> uint64_t { return 128; });
}

// Functions: declared before, called in both ways of a branch, and from another function.
void calls() {
  const std::string functions =
      ".func (.param .b32 back) sum\n(\n.param .b32 sum_param_0\n)\n;\n"
      ".func (.param .b32 back) sum(.param .b32 sum_param_0)\n{\n.reg .pred %p<2>;\n.reg .b32 "
      "%r<4>;\nld.param.b32 %r1, [sum_param_0];\nmov.u32 %r2, 0;\n$L1:\nsetp.eq.s32 %p1, %r1, "
      "0;\n@%p1 bra $L2;\nadd.s32 %r2, %r2, %r1;\nadd.s32 %r1, %r1, -1;\nbra.uni "
      "$L1;\n$L2:\nst.param.b32 [back], %r2;\nret;\n}\n"
      ".func twice(.param .b64 twice_param_0, .param .align 8 .b8 twice_param_1[8])\n{\n.reg .pred "
      "%p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\nld.param.b64 %rd1, "
      "[twice_param_0];\nld.param.b32 %r1, [twice_param_1+4];\nsetp.gt.s32 %p1, %r1, 20;\n@%p1 "
      "ret;\n{\n.param .b32 param0;\nst.param.b32 [param0], %r1;\n.param .b32 "
      "retval0;\ncall.uni (retval0),\nsum,\n(\nparam0\n);\nld.param.b32 %r2, "
      "[retval0];\n}\nshl.b32 %r2, %r2, 1;\ncvt.u64.u32 %rd2, %r2;\nst.global.u64 [%rd1], "
      "%rd2;\nret;\n}\n";
  const std::string call =
      "{\n.param .b64 param0;\nst.param.b64 [param0], %rd1;\n.param .align 8 .b8 "
      "param1[8];\nst.param.v2.b32 [param1], {%r9, %r1};\ncall.uni twice, (param0, param1);\n}\n";
  const std::string body = "mov.u32 %r9, 99;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra $L1;\n" + call +
                           "bra.uni $L2;\n$L1:\n" + call + "$L2:\nbar.warp.sync -1;";
  for (const uint64_t seed : {0, 1, 2}) {
    auto kernel = make(body, "", functions);
    const auto out = run_kernel(*kernel, std::vector<uint64_t>(32, 7), 32, seed);
    for (unsigned l = 0; l < 32; ++l) expect("a call", out[l], l > 20 ? 0 : l * (l + 1));
  }
  refuses("a function", "unknown function", [] { make("call.uni sum;", ""); });
}

void unsupported_inputs() {
  const std::vector<uint64_t> in(64, 7);
  const auto go = [&](const std::string& body, unsigned threads = 32, bool checks = false) {
    auto kernel = make(body, ".shared .align 4 .b8 s[128];\n");
    run_kernel(*kernel, in, threads, 0, checks);
  };
  refuses("alignment", "misaligned", [&] { go("ld.global.v2.u64 {%rd6, %rd7}, [%rd2];"); });
  refuses("null", "outside of all memory",
          [&] { go("mov.u64 %rd6, 16;\nld.global.u32 %r2, [%rd6];"); });
  refuses("shared", "outside of shared memory",
          [&] { go("mov.u32 %r2, s;\nst.shared.u32 [%r2+128], %r2;"); });
  refuses("parameters", "outside of the parameters",
          [&] { go("ld.param.u64 %rd6, [k_param_1+8];"); });
  refuses("a barrier of some", "have left while others wait",
          [&] { go("setp.gt.u32 %p1, %r1, 31;\n@%p1 bra $L1;\nbar.sync 0;\n$L1:", 64); });
  refuses("a barrier of some lanes", "at different places", [&] {
    go("setp.gt.u32 %p1, %r1, 3;\n@%p1 bra $L1;\nbar.sync 0;\nbra.uni $L2;\n$L1:\nbar.sync "
       "0;\n$L2:");
  });
  refuses("a shuffle of some", "at different places", [&] {
    go("setp.gt.u32 %p1, %r1, 3;\n@%p1 bra $L1;\nshfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\nbra.uni "
       "$L2;\n$L1:\nbar.warp.sync -1;\n$L2:");
  });
  refuses("a foreign mask", "not in the mask", [&] { go("bar.warp.sync 3;"); });
  refuses("a lane that takes no part", "takes no part", [&] {
    go("setp.gt.u32 %p1, %r1, 15;\n@%p1 bra $L1;\nshfl.sync.bfly.b32 %r3, %r1, 16, 31, "
       "0xffff;\n$L1:");
  });
  refuses("an instruction", "unknown instruction", [&] { go("add.sat.s32 %r2, %r2, 1;"); });
  go("mov.u32 %r2, s;\nld.shared.u32 %r3, [%r2+64];\nst.global.u32 [%rd1], %r3;", 32, true);
  notes("shared memory", "what is stored has no value");
  logged.clear();
  go("div.u32 %r3, %r1, %r1;");
  notes("a division", "divided by 0");
  go("st.global.u32 [%rd1], %r15;", 32, true);
  notes("a register", "what is stored has no value");
  go("setp.eq.s32 %p1, %r15, 0;\nand.pred %p2, %p1, %p1;\n@%p2 bra $L1;\nmov.u32 %r1, 0;\n$L1:", 32,
     true);
  notes("a condition", "the condition has no value");
  logged.clear();
  go("setp.eq.s32 %p1, %r15, 0;\nsetp.eq.s32 %p2, %r1, 99;\nand.pred %p2, %p2, %p1;\n@%p2 bra "
     "$L1;\nmov.u32 %r1, 0;\n$L1:\nselp.b32 %r3, %r15, %r1, %p2;\nst.global.u32 [%rd1], %r3;",
     32, true);
  expect("nothing to note", logged.size(), 0);
}

// What a warp's requests cost; kernels touch 128 or more bytes of what they read.
void costs() {
  const auto of = [](const std::string& what, const std::string& body, Class kind, uint64_t units,
                     uint64_t least, uint64_t bytes, uint64_t touched, uint64_t lines = 0) {
    auto kernel = make(body, ".shared .align 16 .b8 s[4096];\n");
    run_kernel(*kernel, std::vector<uint64_t>(512, 7), 32, 0, false, true);
    Counts sum, all;
    for (size_t n = 0; n < kernel->counts.size(); ++n) {
      all.add(kernel->counts[n]);
      if (kernel->class_of_number[n] == kind) sum.add(kernel->counts[n]);
    }
    expect(what + ": sectors or passes", sum.units, units);
    expect(what + ": the fewest", sum.least, least);
    expect(what + ": bytes", sum.bytes, bytes);
    expect(what + ": touched", kernel->touched, touched);
    expect(what + ": lines", sum.lines, lines);
    expect(what + ": the longest warp's", kernel->longest, all.issues);  // the only one
  };
  const std::string strided = "mul.wide.u32 %rd5, %r1, 32;\nadd.s64 %rd6, %rd4, %rd5;\n";
  const Class reads = Class::kLoadGlobal, shared = Class::kStoreShared;
  of("dense", "ld.global.u64 %rd7, [%rd2];", reads, 8, 8, 256, 256, 2);
  of("strided", strided + "ld.global.u32 %r2, [%rd6];", reads, 32, 4, 128, 128, 8);
  of("the same twice", "ld.global.u64 %rd7, [%rd2];\nld.global.u64 %rd8, [%rd2];", reads, 16, 16,
     512, 256, 4);
  of("one for all", "ld.global.u32 %r2, [%rd4];", reads, 1, 4, 128, 4, 1);
  of("half of a warp",
     "setp.gt.u32 %p1, %r1, 15;\n@%p1 bra $L1;\nld.global.u64 %rd7, [%rd2];\n$L1:", reads, 4, 4,
     128, 128, 1);
  const auto store = [](int shift, const char* what) {
    return "mov.u32 %r2, s;\nshl.b32 %r3, %r1, " + std::to_string(shift) +
           ";\nadd.s32 %r4, %r2, %r3;\n" + what;
  };
  of("banks", store(2, "st.shared.u32 [%r4], %r1;"), shared, 1, 1, 128, 0);
  of("one bank", store(7, "st.shared.u32 [%r4], %r1;"), shared, 32, 1, 128, 0);
  of("a broadcast", store(2, "st.shared.u32 [%r2], %r1;"), shared, 1, 1, 128, 0);
  of("16 bytes", store(4, "st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};"), shared, 4, 4, 512, 0);
  of("16 of 32 bytes", store(5, "st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};"), shared, 8, 4, 512,
     0);
}

}  // namespace

namespace ptx {
void check_global(const Warp&, const Instruction&, int, uint64_t, size_t, bool) {}
void log_line(const std::string& text) { logged.push_back(text); }
}  // namespace ptx

int main(int, char** arguments) {
  file = std::string(arguments[0]) + ".ptx";  // beside the program
  arithmetic();
  lanes();
  calls();
  unsupported_inputs();
  costs();
  std::printf("%d failures\n", failures);
  return failures != 0;
}
