// Sixteen floats, and sixteen 32-bit integers, in two AVX2 registers.
// Included by one file an instruction set, never twice: see float_kernels_impl.h.
#include <immintrin.h>

#include "core/ggml_blocks.h"

namespace {

// Most rows of a tile, whose sums should stay in the registers.
constexpr size_t kFloatTileRows = 4, kInt8TileRows = 4, kGroupedTileRows = 4, kBf16TileRows = 1;
// Chains of fused multiply-adds to compute side by side: one chain alone would wait for each of its own steps.
constexpr size_t kChains = 4;
// Rows of a tile of widened weights; 0: there are none.
constexpr size_t kBlockTileRows = 4;

// In two halves, so that lanes add up in the same order as with AVX-512.
struct V {
  __m256 a, b;

  static V set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static V loadu(const float* p) { return load(p); }
  static void store(float* p, V x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  static void storeu(float* p, V x) { store(p, x); }
  static V add(V x, V y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static V sub(V x, V y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static V mul(V x, V y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static V div(V x, V y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static V fma(V x, V y, V z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  static V max(V x, V y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static V min(V x, V y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static __m256 power(__m256 t) {
    const __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x3f800000)));
  }
  static V scale_by_power(V x, V t) { return {_mm256_mul_ps(x.a, power(t.a)), _mm256_mul_ps(x.b, power(t.b))}; }
  static V zero_below(V x, V limit, V value) {
    return {_mm256_and_ps(_mm256_cmp_ps(x.a, limit.a, _CMP_NLT_UQ), value.a),
            _mm256_and_ps(_mm256_cmp_ps(x.b, limit.b, _CMP_NLT_UQ), value.b)};
  }
  static void load_bf16_pairs(const void* p, V& even, V& odd) {
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    const __m256i lo = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    const __m256i hi = _mm256_loadu_si256(static_cast<const __m256i*>(p) + 1);
    even = {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
    odd = {_mm256_castsi256_ps(_mm256_and_si256(lo, mask)), _mm256_castsi256_ps(_mm256_and_si256(hi, mask))};
  }
  static V load_bf16(const void* p) {
    const __m256i pair = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    const __m256i lo = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(pair));
    const __m256i hi = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(pair, 1));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
  }
  // Sixteen signed bytes.
  static V load_codes(const void* p) {
    const __m128i codes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8)))};
  }
  static void load_int8(const void* p, V (&code)[4]) {
    const __m256i lo = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    const __m256i hi = _mm256_loadu_si256(static_cast<const __m256i*>(p) + 1);
    for (int i = 0; i < 4; ++i) {
      const int up = 24 - 8 * i;
      code[i] = {_mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(lo, up), 24)),
                 _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(hi, up), 24))};
    }
  }
  static V load_f16(const void* p) {
    const __m256i both = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(both)), _mm256_cvtph_ps(_mm256_extracti128_si256(both, 1))};
  }
  // Sixteen columns of 16 bits.
  static void load_half_words(const void* p, __m256i& a, __m256i& b) {
    const __m256i both = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    a = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(both));
    b = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(both, 1));
  }
  // `count` bits from `shift` on of each of sixteen words of 16 bits.
  static V load_bits(const void* p, unsigned shift, unsigned count) {
    const __m256i mask = _mm256_set1_epi32((1 << count) - 1);
    const auto number = [&](__m256i words) {
      return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(words, static_cast<int>(shift)), mask));
    };
    __m256i a, b;
    load_half_words(p, a, b);
    return {number(a), number(b)};
  }
  // Byte `which` of each of sixteen pairs of signed bytes.
  static V load_signed_bytes(const void* p, size_t which) {
    const int up = which == 0 ? 24 : 16;
    __m256i a, b;
    load_half_words(p, a, b);
    return {_mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(a, up), 24)),
            _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(b, up), 24))};
  }
  /// The number in `mask` of each lane, from bit `shift` on, less `zero`.
  static __m256 bits(__m256i lane, int shift, int mask, int zero) {
    const __m256i code = _mm256_and_si256(_mm256_srli_epi32(lane, shift), _mm256_set1_epi32(mask));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(zero)));
  }
  // Sixteen columns of four bytes, whose bits `flip` are flipped, less `zero`.
  static void load_bytes(const void* p, uint8_t flip, float zero, V (&code)[4]) {
    const __m256i flipped = _mm256_set1_epi8(static_cast<char>(flip));
    const __m256i lo = _mm256_xor_si256(_mm256_loadu_si256(static_cast<const __m256i*>(p)), flipped);
    const __m256i hi = _mm256_xor_si256(_mm256_loadu_si256(static_cast<const __m256i*>(p) + 1), flipped);
    for (int i = 0; i < 4; ++i) {
      code[i] = {bits(lo, 8 * i, 255, static_cast<int>(zero)), bits(hi, 8 * i, 255, static_cast<int>(zero))};
    }
  }
  static void load_nibbles(const void* p, int zero, V (&code)[8]) {
    const __m256i lo = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    const __m256i hi = _mm256_loadu_si256(static_cast<const __m256i*>(p) + 1);
    for (int i = 0; i < 4; ++i) {
      code[i] = {bits(lo, 8 * i, 15, zero), bits(hi, 8 * i, 15, zero)};
      code[i + 4] = {bits(lo, 8 * i + 4, 15, zero), bits(hi, 8 * i + 4, 15, zero)};
    }
  }
  static void load_int4(const void* p, V (&code)[8]) { load_nibbles(p, 8, code); }
  static void load_uint4(const void* p, V (&code)[8]) { load_nibbles(p, 0, code); }
  static __m256i join_int6(const __m256i* low, const __m256i* high, int part, int step) {
    const __m256i lane = _mm256_srl_epi32(_mm256_loadu_si256(low), _mm_cvtsi32_si128(4 * part));
    const __m256i wide = _mm256_srl_epi32(_mm256_loadu_si256(high), _mm_cvtsi32_si128(2 * step));
    return _mm256_or_si256(_mm256_and_si256(lane, _mm256_set1_epi8(15)),
                           _mm256_slli_epi32(_mm256_and_si256(wide, _mm256_set1_epi8(3)), 4));
  }
  // Sixteen columns of four codes of 6 bits: their low 4 bits are nibble `part` of the bytes at `low`, their high 2
  // bits number `step` of those at `high`.
  static void load_int6(const void* low, const void* high, unsigned part, unsigned step, V (&code)[4]) {
    const auto* from = static_cast<const __m256i*>(low);
    const auto* top = static_cast<const __m256i*>(high);
    const __m256i a = join_int6(from, top, static_cast<int>(part), static_cast<int>(step));
    const __m256i b = join_int6(from + 1, top + 1, static_cast<int>(part), static_cast<int>(step));
    for (int i = 0; i < 4; ++i) code[i] = {bits(a, 8 * i, 63, 32), bits(b, 8 * i, 63, 32)};
  }
  /// Sixteen e2m1 nibbles from bit `shift` on of each lane: a table of the eight magnitudes, and the sign bit.
  static __m256 e2m1(__m256i lane, int shift) {
    const __m256 magnitudes = _mm256_setr_ps(0, 1, 2, 3, 4, 6, 8, 12);
    const __m256i bits = _mm256_srli_epi32(lane, shift);
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(8)), 28);
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(magnitudes, bits), _mm256_castsi256_ps(sign));
  }
  static void load_mxfp4(const void* p, V (&code)[8]) {
    const __m256i lo = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    const __m256i hi = _mm256_loadu_si256(static_cast<const __m256i*>(p) + 1);
    for (int i = 0; i < 4; ++i) {
      code[i] = {e2m1(lo, 8 * i), e2m1(hi, 8 * i)};
      code[i + 4] = {e2m1(lo, 8 * i + 4), e2m1(hi, 8 * i + 4)};
    }
  }
};

struct I {
  __m256i a, b;

  /// How much larger than the code the byte of an activation is, before int8 weights; where it is, bytes of q8_0
  /// weights are made unsigned, too.
  static constexpr unsigned kZero = 0;

  static I set(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static I load(const void* p) {
    const auto* half = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(half), _mm256_loadu_si256(half + 1)};
  }
  static void store(void* p, I x) {
    auto* half = static_cast<__m256i*>(p);
    _mm256_storeu_si256(half, x.a);
    _mm256_storeu_si256(half + 1, x.b);
  }
  static I sub(I x, I y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
  /// Four signed bytes as unsigned ones that are larger by 128.
  static I plus_128(I x) {
    const __m256i bit = _mm256_set1_epi8(-128);
    return {_mm256_xor_si256(x.a, bit), _mm256_xor_si256(x.b, bit)};
  }
  static I times_128(I x) { return {_mm256_slli_epi32(x.a, 7), _mm256_slli_epi32(x.b, 7)}; }
  static I low_nibbles(I x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
  }
  static I high_nibbles(I x) { return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)}); }
  static V to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  /// Values of e2m1 nibbles, doubled, plus 12: no less than 0.
  static I mxfp4(I nibbles) {
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return {_mm256_shuffle_epi8(table, nibbles.a), _mm256_shuffle_epi8(table, nibbles.b)};
  }
  /// kCount bits of each byte, from `shift` on.
  template <unsigned kCount>
  static I bits(I x, size_t shift) {
    const __m256i mask = _mm256_set1_epi8((1 << kCount) - 1);
    const int by = static_cast<int>(shift);
    return {_mm256_and_si256(_mm256_srli_epi32(x.a, by), mask), _mm256_and_si256(_mm256_srli_epi32(x.b, by), mask)};
  }
  /// Bytes `low` with the bits of `high` from `shift` on.
  static I with_high(I low, I high, unsigned shift) {
    const int by = static_cast<int>(shift);
    return {_mm256_or_si256(low.a, _mm256_slli_epi32(high.a, by)),
            _mm256_or_si256(low.b, _mm256_slli_epi32(high.b, by))};
  }
  /// Sixteen signed bytes at `numbers`, by their places.
  static I look_up(const int8_t* numbers, I places) {
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
    return {_mm256_shuffle_epi8(table, places.a), _mm256_shuffle_epi8(table, places.b)};
  }
  /// bf16 numbers of two neighbours in a column: `rest` has signs and mantissas, `code` exponents, 0 or less `base`, in
  /// the order of coded_byte().
  static void bf16_pairs(__m256i rest, __m256i code, __m256i base, __m256i& first, __m256i& second) {
    const __m256i none = _mm256_cmpeq_epi8(code, _mm256_setzero_si256()), sign = _mm256_set1_epi8(-128);
    const __m256i exponent = _mm256_andnot_si256(none, _mm256_add_epi8(code, base));
    const auto choose = [&](__m256i top, __m256i others) {
      return _mm256_or_si256(_mm256_and_si256(sign, top), _mm256_andnot_si256(sign, others));
    };
    const __m256i high = choose(rest, _mm256_srli_epi16(exponent, 1)),
                  low = choose(_mm256_slli_epi16(exponent, 7), rest);
    first = _mm256_unpacklo_epi8(low, high);
    second = _mm256_unpackhi_epi8(low, high);
  }
  static void bf16_pairs(I rest, I code, I base, I& first, I& second) {
    bf16_pairs(rest.a, code.a, base.a, first.a, second.a);
    bf16_pairs(rest.b, code.b, base.b, first.b, second.b);
  }
  /// What V::load_int6() reads, plus 32: no less than 0.
  static I int6(const void* low, const void* high, unsigned part, unsigned step) {
    const auto code = [&](int half) {
      return V::join_int6(static_cast<const __m256i*>(low) + half, static_cast<const __m256i*>(high) + half,
                          static_cast<int>(part), static_cast<int>(step));
    };
    return {code(0), code(1)};
  }
  // acc + u · s in each lane, with u four unsigned bytes and s four signed ones. Exact where the sum of two products
  // fits into 16 bits.
  static __m256i dot(__m256i acc, __m256i u, __m256i s) {
    const __m256i pairs = _mm256_maddubs_epi16(u, s);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static I dot(I acc, I u, I s) { return {dot(acc.a, u.a, s.a), dot(acc.b, u.b, s.b)}; }
  // acc + a · w in each lane, with four codes of activations, from -127 to 127, and four signed bytes. Exact.
  static I dot_signed(I acc, I a, I w) {
    return dot(acc, {_mm256_abs_epi8(w.a), _mm256_abs_epi8(w.b)},
               {_mm256_sign_epi8(a.a, w.a), _mm256_sign_epi8(a.b, w.b)});
  }
};

}  // namespace
