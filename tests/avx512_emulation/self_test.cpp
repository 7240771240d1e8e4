// Calls every function of avx512.h with random bits, and prints a digest of all results. Compiled
// for AVX-512, it calls the processor's own functions beside them, and says which differ. So a
// processor with AVX2 alone can tell whether the emulation still gives what AVX-512 gave.
#include "avx512.h"

#include <cmath>
#include <cstdio>
#include <random>

namespace {

constexpr int kRounds = 200;

std::mt19937_64 bits;
int failures = 0;
uint64_t digest = 0xcbf29ce484222325;  // FNV-1a

template <class V>
V random_vector() {
  uint64_t words[sizeof(V) / 8];
  for (uint64_t& word : words) word = bits();
  V v;
  memcpy(&v, words, sizeof(V));
  return v;
}

// Large and small ones, infinity, and the one NaN that processors make.
__m512 random_floats() {
  float x[16];
  for (float& v : x) v = static_cast<float>(static_cast<int64_t>(bits()) >> (bits() % 64)) * 0.25f;
  const uint32_t nan = 0xffc00000;
  if (bits() % 4 == 0) memcpy(&x[bits() % 16], &nan, 4);
  if (bits() % 4 == 0) x[bits() % 16] = HUGE_VALF;
  return visops::_mm512_loadu_ps(x);
}

// Vectors by their bytes, which is how the test sees them.
template <class V, class X>
V from_bytes(const X& x) {
  static_assert(sizeof(V) <= sizeof(X), "enough bytes");
  V v;
  memcpy(&v, &x, sizeof(V));
  return v;
}

template <class V>
void note(const V& found) {
  unsigned char bytes[sizeof(V)];
  memcpy(bytes, &found, sizeof(V));
  for (const unsigned char byte : bytes) digest = (digest ^ byte) * 0x100000001b3;
}

template <class V>
void compare(const char* name, const V& expected, const V& found) {
  note(found);
  if (memcmp(&expected, &found, sizeof(V)) == 0) return;
  ++failures;
  printf("%s differs\n", name);
}

// Arguments are evaluated twice, and instructions want constants among them as such: whatever is
// drawn at random is drawn into a variable first.
#ifdef __AVX512F__
#define CHECK(name, ...) \
  compare(#name, ::_mm512_##name(__VA_ARGS__), visops::_mm512_##name(__VA_ARGS__))
#else
#define CHECK(name, ...) note(visops::_mm512_##name(__VA_ARGS__))
#endif

void check_integers() {
  const auto a = random_vector<__m512i>(), b = random_vector<__m512i>();
  const auto c = random_vector<__m512i>();
  CHECK(add_epi8, a, b);
  CHECK(add_epi16, a, b);
  CHECK(add_epi32, a, b);
  CHECK(add_epi64, a, b);
  CHECK(sub_epi32, a, b);
  CHECK(and_si512, a, b);
  CHECK(or_si512, a, b);
  CHECK(madd_epi16, a, b);
  CHECK(sad_epu8, a, b);
  CHECK(packs_epi32, a, b);
  CHECK(shuffle_epi8, a, b);
  CHECK(srli_epi16, a, 4);
  CHECK(slli_epi16, a, 8);
  CHECK(srlv_epi16, a, visops::_mm512_and_si512(c, visops::_mm512_set1_epi16(31)));
  CHECK(srli_epi32, a, 16);
  CHECK(slli_epi32, a, 8);
  CHECK(srai_epi32, a, 1);
  CHECK(ternarylogic_epi64, a, b, c, 0xe8);
  CHECK(ternarylogic_epi64, a, b, c, 0x96);
  CHECK(ternarylogic_epi64, a, b, c, 0x1b);
  int64_t lanes[8], sum = 0;
  memcpy(lanes, &a, 64);
  for (const int64_t lane : lanes) sum += lane;
  compare("reduce_add_epi64", sum, visops::_mm512_reduce_add_epi64(a));
  const auto mask = static_cast<__mmask16>(bits());
  CHECK(mask_blend_epi16, static_cast<__mmask32>(mask * 0x10001u), a, b);
  CHECK(mask_or_epi32, c, mask, a, b);
  CHECK(maskz_mul_epu32, static_cast<__mmask8>(mask), a, b);
  for (int count : {0, 3, 31, 32, 63, 64}) {
    CHECK(sll_epi64, a, _mm_cvtsi32_si128(count));
    CHECK(maskz_sra_epi32, mask, a, _mm_cvtsi32_si128(count));
  }
  const __m512i fewer = visops::_mm512_and_si512(a, c), none = visops::_mm512_setzero_si512();
  CHECK(test_epi8_mask, fewer, b);
  CHECK(test_epi16_mask, fewer, b);
  CHECK(test_epi64_mask, mask % 2 ? fewer : none, b);
  CHECK(cmpge_epu32_mask, a, b);
  CHECK(cmpge_epu32_mask, a, a);
}

// The first eight floats.
__m512d doubles(const __m512& v) {
  float x[8];
  double y[8];
  memcpy(x, &v, sizeof(x));
  for (int k = 0; k < 8; ++k) y[k] = x[k];
  return from_bytes<__m512d>(y);
}

void check_floats() {
  const __m512 a = random_floats(), b = random_floats(), c = random_floats();
  CHECK(add_ps, a, b);
  CHECK(sub_ps, a, b);
  CHECK(mul_ps, a, b);
  CHECK(min_ps, a, b);
  CHECK(max_ps, a, b);
  CHECK(fmadd_ps, a, b, c);
  const __m512d d = doubles(a), e = doubles(b), f = doubles(c);
  CHECK(fmadd_pd, d, e, f);
  CHECK(permute_pd, d, 0x55);
  CHECK(cmp_ps_mask, a, b, _CMP_UNORD_Q);
  CHECK(cmp_ps_mask, a, b, _CMP_ORD_Q);
  const auto mask = static_cast<__mmask16>(bits());
  CHECK(maskz_mul_ps, mask, a, b);
  CHECK(cvtps_epi32, a);
  CHECK(cvtps_ph, a, _MM_FROUND_TO_NEAREST_INT);
  const auto halves = random_vector<__m256i>();
  CHECK(cvtph_ps, halves);
  CHECK(shuffle_ps, a, b, 0x88);
  CHECK(shuffle_ps, a, b, 0x72);
  CHECK(permute_ps, a, 0xb1);
  CHECK(unpacklo_ps, a, b);
  CHECK(unpackhi_ps, a, b);
  const auto index = random_vector<__m512i>();
  CHECK(cvtepi32_ps, index);
  CHECK(permutexvar_ps, index, a);
  CHECK(permutex2var_ps, a, index, b);
}

void check_order() {
  const auto a = random_vector<__m512i>(), b = random_vector<__m512i>();
  const auto index = random_vector<__m512i>();
  CHECK(unpacklo_epi8, a, b);
  CHECK(unpackhi_epi8, a, b);
  CHECK(unpacklo_epi32, a, b);
  CHECK(unpackhi_epi32, a, b);
  CHECK(unpacklo_epi64, a, b);
  CHECK(unpackhi_epi64, a, b);
  CHECK(permutexvar_epi32, index, a);
  CHECK(permutex2var_epi16, a, index, b);
  CHECK(permutex2var_epi64, a, index, b);
  CHECK(cvtepi32_epi8, a);
  CHECK(cvtepi32_epi16, a);
  CHECK(cvtepi64_epi32, a);
  const auto x = random_vector<__m128i>();
  CHECK(cvtepu8_epi32, x);
  const auto half = random_vector<__m256i>();
  const auto mask = static_cast<__mmask16>(bits());
  CHECK(cvtepu16_epi32, half);
  CHECK(broadcast_i32x4, x);
  CHECK(mask_broadcast_i32x4, a, mask, x);
  CHECK(inserti64x4, a, half, 1);
  CHECK(extracti32x4_epi32, a, 2);
  CHECK(castsi512_si256, a);
  CHECK(castsi512_ps, a);
  const __m512 v = random_floats();
  const __m128 front = from_bytes<__m128>(v);
  CHECK(castps_si512, v);
  CHECK(castps512_ps128, v);
  CHECK(broadcast_f32x4, front);
  CHECK(insertf32x4, v, front, 3);
  CHECK(extractf32x4_ps, v, 1);
  // What follows the part that is cast is undefined.
  compare("castps128_ps512", front, from_bytes<__m128>(visops::_mm512_castps128_ps512(front)));
  compare("castsi128_si512", x, from_bytes<__m128i>(visops::_mm512_castsi128_si512(x)));
  compare("castsi256_si512", half, from_bytes<__m256i>(visops::_mm512_castsi256_si512(half)));
}

// Elements of a mask are loaded, and stored over bytes of another pattern.
#ifdef __AVX512F__
#define STORE_MASKED(size) ::_mm512_mask_storeu_epi##size(stored[0], mask, v)
#else
#define STORE_MASKED(size) visops::_mm512_mask_storeu_epi##size(stored[0], mask, v)
#endif
#define CHECK_MASKED(size, Mask)                              \
  {                                                           \
    const auto mask = static_cast<Mask>(bits());              \
    char stored[2][65];                                       \
    memset(stored, 0x3c, sizeof(stored));                     \
    CHECK(maskz_loadu_epi##size, mask, bytes + 1);            \
    STORE_MASKED(size);                                       \
    visops::_mm512_mask_storeu_epi##size(stored[1], mask, v); \
    compare_stores("mask_storeu_epi" #size, stored);          \
  }

// The processor's store, and the emulation's.
void compare_stores(const char* name, const char (&stored)[2][65]) {
  struct Bytes {
    char at[65];
  };
  compare(name, from_bytes<Bytes>(stored[0]), from_bytes<Bytes>(stored[1]));
}

void check_memory() {
  alignas(64) char bytes[65], copies[2][65] = {};
  for (char& byte : bytes) byte = static_cast<char>(bits());
  CHECK(loadu_si512, bytes + 1);
  CHECK(load_si512, bytes);
  CHECK(loadu_ps, bytes + 1);
  CHECK(setzero_ps);
  CHECK(setzero_si512);
  CHECK(set1_ps, 1.5f);
  CHECK(set1_epi8, static_cast<char>(-3));
  CHECK(set1_epi16, static_cast<short>(-300));
  CHECK(set1_epi32, -70000);
  const int64_t e[8] = {1, -2, 3, int64_t{1} << 40, 5, 6, 7, 8};
  compare("setr_epi64", from_bytes<__m512i>(e),
          visops::_mm512_setr_epi64(e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7]));
  const int32_t i[16] = {0, 1, -2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 1 << 30};
  compare("setr_epi32", from_bytes<__m512i>(i),
          visops::_mm512_setr_epi32(i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], i[9],
                                    i[10], i[11], i[12], i[13], i[14], i[15]));
  // Plain stores write the vector's bytes, and no others.
  const auto v = random_vector<__m512i>();
  memcpy(copies[0] + 1, &v, 64);
  visops::_mm512_storeu_si512(copies[1] + 1, v);
  compare_stores("storeu_si512", copies);
  memcpy(copies[0], &v, 64);
  visops::_mm512_storeu_ps(copies[1], from_bytes<__m512>(v));
  compare_stores("storeu_ps", copies);
  alignas(64) char streamed[64];
  visops::_mm512_stream_si512(streamed, v);
  compare("stream_si512", v, from_bytes<__m512i>(streamed));
  CHECK_MASKED(16, __mmask32)
  CHECK_MASKED(32, __mmask16)
  CHECK_MASKED(64, __mmask8)
}

}  // namespace

int main() {
  for (int round = 0; round < kRounds && failures < 20; ++round) {
    check_integers();
    check_floats();
    check_order();
    check_memory();
  }
  printf("digest %016llx\n", static_cast<unsigned long long>(digest));
  return failures == 0 ? 0 : 1;
}
