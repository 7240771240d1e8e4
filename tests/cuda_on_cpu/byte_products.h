// CUDA's products of bytes and halves, and what picks bytes for them.
#pragma once

// Four of the bytes of `high` and `low`, which a digit of `selector` picks each; its highest bit,
// which spreads a byte's sign, is not emulated.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
  unsigned picked = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned digit = selector >> (4 * i) & 7u;
    picked |= static_cast<unsigned>(bytes >> (8 * digit) & 0xffu) << (8 * i);
  }
  return picked;
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift % 32));
}

// Two signed halves of `a` by the signed bytes 0 and 1, or 2 and 3, of `b`. Sums wrap around.
inline int __dp2a_lo(int a, int b, int sum) {
  const int one = static_cast<short>(a) * static_cast<signed char>(b);
  const int two = static_cast<short>(a >> 16) * static_cast<signed char>(b >> 8);
  return static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(one) +
                          static_cast<unsigned>(two));
}
inline int __dp2a_hi(int a, int b, int sum) { return __dp2a_lo(a, b >> 16, sum); }
