#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

// Functions of a single thread. Those that the hardware rounds loosely (rsqrtf, __expf and the like) are
// exact here.

template <class A, class B>
concept SameKindOfNumber = (std::is_integral_v<A> && std::is_integral_v<B>) ||
                           (std::is_floating_point_v<A> && std::is_floating_point_v<B>);

template <class A, class B>
requires SameKindOfNumber<A, B>
constexpr std::common_type_t<A, B> min(A first, B second) {
  using Number = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<Number>) return std::fmin(Number(first), Number(second));
  return Number(second) < Number(first) ? Number(second) : Number(first);
}

template <class A, class B>
requires SameKindOfNumber<A, B>
constexpr std::common_type_t<A, B> max(A first, B second) {
  using Number = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<Number>) return std::fmax(Number(first), Number(second));
  return Number(first) < Number(second) ? Number(second) : Number(first);
}

inline float rsqrtf(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
// glibc's <math.h> declares some of these names and defines none.
inline float __expf(float x) noexcept { return std::exp(x); }
inline float __logf(float x) noexcept { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __saturatef(float x) { return x > 0.0F ? std::fmin(x, 1.0F) : 0.0F; }

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline int __float2int_rn(float x) {
  if (std::isnan(x)) return 0;
  if (x >= 2147483648.0F) return INT32_MAX;
  return x < -2147483648.0F ? INT32_MIN : static_cast<int>(std::nearbyint(x));
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }

/// Four bytes out of the eight of y:x, each named by a nibble of `selector`.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const auto byte = static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7))) & 0xffU;
    result |= byte << (8 * i);
  }
  return result;
}

/// (high:low >> shift) and (high:low << shift), of which the low and the high word; shift modulo 32.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) << (shift & 31) >> 32);
}

/// c plus the products of the four signed bytes of a and b.
inline int __dp4a(int a, int b, int c) {
  auto sum = static_cast<unsigned>(c);
  for (int i = 0; i < 32; i += 8) sum += static_cast<unsigned>(int8_t(a >> i) * int8_t(b >> i));
  return static_cast<int>(sum);
}

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}
