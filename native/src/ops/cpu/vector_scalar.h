// The reference: sixteen floats or integers in a plain array, one IEEE operation at a time.
// Included by one file an instruction set, never twice: see float_kernels_impl.h.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/dtype.h"
#include "core/ggml_blocks.h"
#include "weights/quantize.h"

namespace {

// Most rows of a tile: few, because the compiler unrolls lanes as well.
constexpr size_t kFloatTileRows = 2, kInt8TileRows = 2, kGroupedTileRows = 2, kBf16TileRows = 1;
// Chains of fused multiply-adds to compute side by side: one chain alone would wait for each of its own steps.
constexpr size_t kChains = 4;
// Rows of a tile of widened weights; 0: there are none.
constexpr size_t kBlockTileRows = 0;

struct V {
  float lane[16];

  template <class F>
  static V map(F f) {
    V out;
    for (int i = 0; i < 16; ++i) out.lane[i] = f(i);
    return out;
  }
  static V set(float a) {
    return map([&](int) { return a; });
  }
  static V load(const float* p) {
    return map([&](int i) { return p[i]; });
  }
  static V loadu(const float* p) { return load(p); }
  static void store(float* p, V a) { std::memcpy(p, a.lane, sizeof a.lane); }
  static void storeu(float* p, V a) { store(p, a); }
  static V add(V a, V b) {
    return map([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static V sub(V a, V b) {
    return map([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static V mul(V a, V b) {
    return map([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static V div(V a, V b) {
    return map([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  static V fma(V a, V b, V c) {
    return map([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  // As on x86: the second operand where either is NaN.
  static V max(V a, V b) {
    return map([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static V min(V a, V b) {
    return map([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  // a · 2^n where t is n plus the rounding constant of exp16.
  static V scale_by_power(V a, V t) {
    return map([&](int i) {
      uint32_t bits;
      std::memcpy(&bits, &t.lane[i], 4);
      bits = (bits << 23) + 0x3f800000u;
      float power;
      std::memcpy(&power, &bits, 4);
      return a.lane[i] * power;
    });
  }
  static V zero_below(V x, V limit, V value) {
    return map([&](int i) { return x.lane[i] < limit.lane[i] ? 0.0f : value.lane[i]; });
  }
  static void load_bf16_pairs(const void* p, V& even, V& odd) {
    uint32_t pair[16];
    std::memcpy(pair, p, sizeof pair);
    for (int i = 0; i < 16; ++i) {
      const uint32_t low = pair[i] << 16;
      const uint32_t high = pair[i] & 0xffff0000u;
      std::memcpy(&even.lane[i], &low, 4);
      std::memcpy(&odd.lane[i], &high, 4);
    }
  }
  static V load_bf16(const void* p) {
    uint16_t half[16];
    std::memcpy(half, p, sizeof half);
    V out;
    for (int i = 0; i < 16; ++i) {
      const uint32_t bits = static_cast<uint32_t>(half[i]) << 16;
      std::memcpy(&out.lane[i], &bits, 4);
    }
    return out;
  }
  // Sixteen signed bytes.
  static V load_codes(const void* p) {
    return map([byte = static_cast<const int8_t*>(p)](int i) { return static_cast<float>(byte[i]); });
  }
  static void load_int8(const void* p, V (&code)[4]) {
    const auto* byte = static_cast<const int8_t*>(p);
    for (int i = 0; i < 64; ++i) code[i % 4].lane[i / 4] = static_cast<float>(byte[i]);
  }
  // Sixteen columns of four bytes, whose bits `flip` are flipped, less `zero`.
  static void load_bytes(const void* p, uint8_t flip, float zero, V (&code)[4]) {
    const auto* byte = static_cast<const uint8_t*>(p);
    for (int i = 0; i < 64; ++i) code[i % 4].lane[i / 4] = static_cast<float>(byte[i] ^ flip) - zero;
  }
  static void load_int4(const void* p, V (&code)[8]) {
    const auto* byte = static_cast<const uint8_t*>(p);
    for (int i = 0; i < 64; ++i) {
      code[i % 4].lane[i / 4] = static_cast<float>((byte[i] & 15) - 8);
      code[i % 4 + 4].lane[i / 4] = static_cast<float>((byte[i] >> 4) - 8);
    }
  }
  static void load_uint4(const void* p, V (&code)[8]) {
    const auto* byte = static_cast<const uint8_t*>(p);
    for (int i = 0; i < 64; ++i) {
      code[i % 4].lane[i / 4] = static_cast<float>(byte[i] & 15);
      code[i % 4 + 4].lane[i / 4] = static_cast<float>(byte[i] >> 4);
    }
  }
  // Sixteen columns of four codes of 6 bits: their low 4 bits are nibble `part` of the bytes at `low`, their high 2
  // bits number `step` of those at `high`.
  static void load_int6(const void* low, const void* high, unsigned part, unsigned step, V (&code)[4]) {
    const auto* bits = static_cast<const uint8_t*>(low);
    const auto* top = static_cast<const uint8_t*>(high);
    for (int i = 0; i < 64; ++i) {
      const int bottom = bits[i] >> 4 * part & 15;
      code[i % 4].lane[i / 4] = static_cast<float>((bottom | (top[i] >> 2 * step & 3) << 4) - 32);
    }
  }
  static V load_f16(const void* p) {
    return map([&](int i) {
      uint16_t bits;
      std::memcpy(&bits, static_cast<const std::byte*>(p) + 2 * i, 2);
      return sida::f16_to_f32(bits);
    });
  }
  // `count` bits from `shift` on of each of sixteen words of 16 bits.
  static V load_bits(const void* p, unsigned shift, unsigned count) {
    return map([&](int i) {
      uint16_t word;
      std::memcpy(&word, static_cast<const std::byte*>(p) + 2 * i, 2);
      return static_cast<float>(word >> shift & ((1 << count) - 1));
    });
  }
  // Byte `which` of each of sixteen pairs of signed bytes.
  static V load_signed_bytes(const void* p, size_t which) {
    const auto* byte = static_cast<const int8_t*>(p) + which;
    return map([&](int i) { return static_cast<float>(byte[2 * i]); });
  }
  static void load_mxfp4(const void* p, V (&code)[8]) {
    const auto* byte = static_cast<const uint8_t*>(p);
    for (int i = 0; i < 64; ++i) {
      code[i % 4].lane[i / 4] = static_cast<float>(sida::kMxfp4Values[byte[i] & 15]);
      code[i % 4 + 4].lane[i / 4] = static_cast<float>(sida::kMxfp4Values[byte[i] >> 4]);
    }
  }
};

// Sums wrap as in the other instruction sets, because a damaged file may hold any sums.
struct I {
  int32_t lane[16];

  /// How much larger than the code the byte of an activation is, before int8 weights; where it is, bytes of q8_0
  /// weights are made unsigned, too.
  static constexpr unsigned kZero = 128;

  static int32_t wrapped(uint32_t bits) { return static_cast<int32_t>(bits); }

  template <class F>
  static I map(F f) {
    I out;
    for (int i = 0; i < 16; ++i) out.lane[i] = f(i);
    return out;
  }
  static I set(int32_t a) {
    return map([&](int) { return a; });
  }
  static I load(const void* p) {
    I out;
    std::memcpy(out.lane, p, sizeof out.lane);
    return out;
  }
  static void store(void* p, I a) { std::memcpy(p, a.lane, sizeof a.lane); }
  static I sub(I a, I b) {
    return map([&](int i) { return wrapped(static_cast<uint32_t>(a.lane[i]) - static_cast<uint32_t>(b.lane[i])); });
  }
  /// Four signed bytes as unsigned ones that are larger by 128.
  static I plus_128(I a) {
    return map([&](int i) { return wrapped(static_cast<uint32_t>(a.lane[i]) ^ 0x80808080u); });
  }
  static I times_128(I a) {
    return map([&](int i) { return wrapped(static_cast<uint32_t>(a.lane[i]) * 128u); });
  }
  static I low_nibbles(I a) {
    return map([&](int i) { return a.lane[i] & 0x0f0f0f0f; });
  }
  static I high_nibbles(I a) {
    return map([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) >> 4 & 0x0f0f0f0fu); });
  }
  static V to_float(I a) {
    return V::map([&](int i) { return static_cast<float>(a.lane[i]); });
  }
  static uint8_t byte(int32_t lane, int which) {
    return static_cast<uint8_t>(static_cast<uint32_t>(lane) >> (8 * which));
  }
  /// Values of e2m1 nibbles, doubled, plus 12: no less than 0.
  static I mxfp4(I nibbles) {
    return map([&](int i) {
      uint32_t bytes = 0;
      for (int j = 0; j < 4; ++j) {
        bytes |= static_cast<uint32_t>(sida::kMxfp4Values[byte(nibbles.lane[i], j)] + 12) << (8 * j);
      }
      return wrapped(bytes);
    });
  }
  /// kCount bits of each byte, from `shift` on.
  template <unsigned kCount>
  static I bits(I a, size_t shift) {
    constexpr uint32_t kMask = ((1U << kCount) - 1) * 0x01010101U;
    return map([&](int i) { return wrapped(static_cast<uint32_t>(a.lane[i]) >> shift & kMask); });
  }
  /// Bytes `low` with the bits of `high` from `shift` on.
  static I with_high(I low, I high, unsigned shift) {
    return map([&](int i) { return low.lane[i] | wrapped(static_cast<uint32_t>(high.lane[i]) << shift); });
  }
  /// Sixteen signed bytes at `numbers`, by their places.
  static I look_up(const int8_t* numbers, I places) {
    return map([&](int i) {
      uint32_t bytes = 0;
      for (int j = 0; j < 4; ++j) {
        bytes |= uint32_t{static_cast<uint8_t>(numbers[byte(places.lane[i], j)])} << (8 * j);
      }
      return wrapped(bytes);
    });
  }
  /// bf16 numbers of two neighbours in a column: `rest` has signs and mantissas, `code` exponents, 0 or less `base`, in
  /// the order of coded_byte().
  static void bf16_pairs(I rest, I code, I base, I& first, I& second) {
    const auto number = [&](int at) {
      const uint32_t bits = byte(rest.lane[at / 4], at % 4), exponent = byte(code.lane[at / 4], at % 4);
      const uint32_t whole = exponent == 0 ? 0 : exponent + byte(base.lane[at / 4], at % 4);
      return (bits & 0x80u) << 8 | (whole & 0xffu) << 7 | (bits & 0x7fu);
    };
    const auto pair = [&](int i, int half) {
      const int at = i / 4 * 16 + 8 * half + i % 4 * 2;
      return wrapped(number(at) | number(at + 1) << 16);
    };
    first = map([&](int i) { return pair(i, 0); });
    second = map([&](int i) { return pair(i, 1); });
  }
  /// What V::load_int6() reads, plus 32: no less than 0.
  static I int6(const void* low, const void* high, unsigned part, unsigned step) {
    const auto* bits = static_cast<const uint8_t*>(low);
    const auto* top = static_cast<const uint8_t*>(high);
    return map([&](int i) {
      uint32_t bytes = 0;
      for (int j = 0; j < 4; ++j) {
        const int at = 4 * i + j, bottom = bits[at] >> 4 * part & 15;
        const int code = bottom | (top[at] >> 2 * step & 3) << 4;
        bytes |= static_cast<uint32_t>(code) << (8 * j);
      }
      return wrapped(bytes);
    });
  }
  // acc + u · s in each lane, u four unsigned bytes and s four signed ones.
  static I dot(I acc, I u, I s) {
    return map([&](int i) {
      int32_t sum = acc.lane[i];
      for (int j = 0; j < 4; ++j) sum += byte(u.lane[i], j) * static_cast<int8_t>(byte(s.lane[i], j));
      return sum;
    });
  }
  // acc + a · w in each lane, with four codes of activations, from -127 to 127, and four signed bytes.
  static I dot_signed(I acc, I a, I w) {
    return map([&](int i) {
      int32_t sum = acc.lane[i];
      for (int j = 0; j < 4; ++j) {
        sum += static_cast<int8_t>(byte(a.lane[i], j)) * static_cast<int8_t>(byte(w.lane[i], j));
      }
      return sum;
    });
  }
};

}  // namespace
