// Prints a digest of what the vectors of csrc/cpu/simd give for numbers of every kind. Compiled
// with -DVISOPS_NEON=0 and with 1 (beside arm_neon.h) it must print the same.
#include <cstdio>
#include <limits>
#include <vector>

#include "cpu/masks/lerp_row.h"
#include "cpu/simd/bits.h"
#include "cpu/simd/integer_sums.h"
#include "cpu/simd/quad_groups.h"
#include "cpu/simd/transpose_bits.h"

namespace visops {
namespace {

uint64_t digest = 1469598103934665603u;
void add(const void* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    digest = (digest ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  }
}
void add(const Floats& v) {
  float f[4];
  v.store(f);
  for (float& x : f) {
    if (x != x) x = std::numeric_limits<float>::quiet_NaN();  // any payload
  }
  add(f, sizeof(f));
}

uint64_t state = 12345;
uint64_t draw() {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

// Numbers about which conversions differ, then any.
std::vector<float> floats() {
  const float limit = std::numeric_limits<float>::infinity();
  std::vector<float> v = {0.0f, -0.0f, limit, -limit, limit - limit, 1e-40f, -1e-40f, 6e-8f};
  for (float base : {0.0f, 1.0f, 127.0f, 254.0f, 255.0f, 32767.0f, 32768.0f, 65504.0f, 65519.0f,
                     65520.0f, 65535.0f, 2147483648.0f, 4294967296.0f, 1e20f}) {
    for (float step : {-1.0f, -0.75f, -0.5f, -0.25f, 0.0f, 0.25f, 0.5f, 0.75f, 1.0f}) {
      v.push_back(base + step);
      v.push_back(-(base + step));
    }
  }
  while (v.size() < 4000) v.push_back(bit_cast<float>(static_cast<uint32_t>(draw())));
  return v;
}

template <class T, int Channels>
void store_all(const std::vector<float>& v) {
  for (size_t i = 0; i + 4 * Channels <= v.size(); i += 4) {
    Floats c[Channels];
    for (int k = 0; k < Channels; ++k) c[k] = Floats::load(&v[i + 4 * k]);
    T to[4 * Channels + 8];
    memset(to, 0, sizeof(to));
    store_pixels(to, c);
    for (int k = 0; k < 4 * Channels; ++k) {
      const float back = load_element(to + k);
      if (back == back) {
        add(to + k, sizeof(T));
      } else {
        add("n", 1);
      }
    }
  }
}

template <class T, int Channels>
void load_all(const std::vector<uint64_t>& words) {
  for (size_t i = 0; i + 8 < words.size(); ++i) {
    const char* from = reinterpret_cast<const char*>(&words[i]);
    add(load_floats(reinterpret_cast<const T*>(from)));
    const int32_t offset[4] = {3, 17, 0, 40};
    PixelPairs pairs[1];
    load_pairs({from}, offset, pairs);
    const FloatPairs p = channel_pairs<T, Channels, Channels - 1>(pairs[0]);
    add(p.low), add(p.high), add(first_of_pairs(p)), add(second_of_pairs(p));
  }
}

void vectors() {
  const std::vector<float> v = floats();
  store_all<uint8_t, 1>(v), store_all<uint8_t, 3>(v), store_all<uint8_t, 4>(v);
  store_all<int16_t, 1>(v), store_all<uint16_t, 1>(v), store_all<Half, 1>(v);
  store_all<BFloat16, 1>(v), store_all<float, 1>(v);
  for (size_t i = 0; i + 16 <= v.size(); i += 4) {
    Floats q[4];
    for (int k = 0; k < 4; ++k) q[k] = Floats::load(&v[i + 4 * k]);
    add(clamp_unit(q[0])), add(q[0] * q[1] + q[2] - q[3]);
    const FloatPairs w = spread(q[0]);
    add(w.low), add(w.high);
    transpose_groups(q);
    for (const Floats& f : q) add(f);
  }
  std::vector<uint64_t> words(3000);
  for (uint64_t& word : words) word = draw();
  load_all<uint8_t, 1>(words), load_all<uint8_t, 3>(words), load_all<uint8_t, 4>(words);
  load_all<Truth, 1>(words), load_all<int16_t, 2>(words), load_all<uint16_t, 1>(words);
  load_all<Half, 1>(words), load_all<BFloat16, 2>(words), load_all<float, 1>(words);
  const int32_t position[4] = {7, 8, 8, 10};
  for (size_t i = 0; i + 16 <= v.size(); ++i) add(pick(&v[i], position, 7));
}

void bits() {
  uint8_t bytes[256];
  uint64_t words[200], turned[64];
  for (int round = 0; round < 200; ++round) {
    for (uint8_t& byte : bytes) byte = draw() % 3 == 0 ? static_cast<uint8_t>(draw()) : 0;
    if (round % 5 == 0) memset(bytes, 0, sizeof(bytes));
    if (round % 10 == 0) bytes[draw() % 256] = 1;
    const uint64_t some = nonzero_bits(bytes);
    const bool any = any_nonzero(bytes);
    add(&some, sizeof(some)), add(&any, sizeof(any));
    for (uint64_t& word : words) word = draw() & draw();
    turn_block(words, round % 3 + 1, turned);
    add(turned, sizeof(turned));
    const int64_t count = count_common(words, words + 3, round % 197);
    add(&count, sizeof(count));
  }
}

template <int Planes, int Blocks>
void sum_words(const int16_t* words, const int16_t* weight) {
  const int32_t first[4] = {0, 5, 3, 20};
  const float scale[4] = {0.5f, 1.0f, 3e-5f, -2.0f};
  float out[4][4];
  float* const to[4] = {out[0], out[1], out[2], out[3]};
  const WordRuns runs = {{words, words + 100, words + 7, words + 50}, first, weight, 2};
  word_sums<Planes, Blocks>(runs, scale, 128.0f, to);
  add(out, Planes * sizeof(out[0]));
}

template <int Channels>
void sum_pixels([[maybe_unused]] const int16_t* words, [[maybe_unused]] const int16_t* weight) {
  const int32_t first[8] = {0, 3, 6, 12, 12, 30, 33, 60};
  const float scale[8] = {0.5f, 1.0f, 3e-5f, -2.0f, 1.5f, 2.0f, 7.0f, 1.0f};
  float out[4][8];
  constexpr int kPairs = 3;
  // Each pair of weights four times: cpu/warp/augment_resize_integers.h.
  int16_t repeated[4 * kPairs * 16];
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < kPairs; ++k) {
      for (int n = 0; n < 8; ++n) {
        repeated[(i % 4 * kPairs + k) * 16 + i / 4 * 8 + n] = weight[i * 8 + 2 * k + n % 2];
      }
    }
  }
  if constexpr (kPixelRuns) {
    float* const to[4] = {out[0], out[1], out[2], out[3]};
    pixel_sums<Channels, 0>({words, first, repeated, kPairs}, scale, 128.0f, to);
  } else {
    for (int c = 0; c < Channels; ++c) {
      for (int i = 0; i < 8; ++i) {
        int32_t sum = 0;
        for (int k = 0; k < 2 * kPairs; ++k) {
          sum += weight[i * 8 + k] * words[first[i] + k * Channels + c];
        }
        out[c][i] = static_cast<float>(sum) * scale[i] + 128.0f;
      }
    }
  }
  add(out, Channels * sizeof(out[0]));
}

void sums() {
  std::vector<uint8_t> bytes(2000);
  std::vector<int16_t> words(400), weight(64);
  for (int round = 0; round < 200; ++round) {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(draw());
    for (int16_t& word : words) word = static_cast<int16_t>(draw());
    for (int16_t& w : weight) w = static_cast<int16_t>(draw()) / 16;
    int32_t pair[4];
    for (int32_t& p : pair) p = static_cast<int32_t>(draw() & 0x1fff3fff);
    int16_t out[kByteBlock];
    const ByteRows rows = {bytes.data(), 211, 1 + round % 7, pair, 1 << 10, round % 15};
    byte_sums(rows, round % 50, out);
    add(out, sizeof(out));
    sum_words<1, 1>(words.data(), weight.data()), sum_words<3, 2>(words.data(), weight.data());
    sum_words<4, 0>(words.data(), weight.data());
    sum_pixels<3>(words.data(), weight.data()), sum_pixels<4>(words.data(), weight.data());
  }
}

}  // namespace
}  // namespace visops

int main() {
  visops::vectors();
  std::printf("vectors %016llx\n", static_cast<unsigned long long>(visops::digest));
  visops::bits();
  std::printf("bits %016llx\n", static_cast<unsigned long long>(visops::digest));
  visops::sums();
  std::printf("sums %016llx\n", static_cast<unsigned long long>(visops::digest));
}
