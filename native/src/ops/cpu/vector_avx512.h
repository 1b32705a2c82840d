// Sixteen floats and sixteen 32-bit integers in one AVX-512 register. With VNNI where the including file is
// compiled for it. Included by one file an instruction set, never twice: see float_kernels_impl.h.
#include <immintrin.h>

#include "core/ggml_blocks.h"

namespace {

// Most rows of a tile, whose sums should stay in the registers.
constexpr size_t kFloatTileRows = 8, kInt8TileRows = 12, kGroupedTileRows = 6, kBf16TileRows = 4;
// Chains of fused multiply-adds to compute side by side: one chain alone would wait for each of its own steps.
constexpr size_t kChains = 8;
// Rows of a tile of widened weights; 0: there are none.
constexpr size_t kBlockTileRows = 0;

struct V {
  __m512 v;

  static V set(float a) { return {_mm512_set1_ps(a)}; }
  static V load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static V loadu(const float* p) { return {_mm512_loadu_ps(p)}; }
  static void store(float* p, V a) { _mm512_storeu_ps(p, a.v); }
  static void storeu(float* p, V a) { _mm512_storeu_ps(p, a.v); }
  static V add(V a, V b) { return {_mm512_add_ps(a.v, b.v)}; }
  static V sub(V a, V b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static V mul(V a, V b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static V div(V a, V b) { return {_mm512_div_ps(a.v, b.v)}; }
  static V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static V max(V a, V b) { return {_mm512_max_ps(a.v, b.v)}; }
  static V min(V a, V b) { return {_mm512_min_ps(a.v, b.v)}; }
  static V scale_by_power(V a, V t) {
    __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(t.v), 23);
    bits = _mm512_add_epi32(bits, _mm512_set1_epi32(0x3f800000));
    return {_mm512_mul_ps(a.v, _mm512_castsi512_ps(bits))};
  }
  static V zero_below(V x, V limit, V value) {
    const __mmask16 keep = _mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ);
    return {_mm512_maskz_mov_ps(keep, value.v)};
  }
  static void load_bf16_pairs(const void* p, V& even, V& odd) {
    const __m512i pair = _mm512_loadu_si512(p);
    even.v = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
    odd.v = _mm512_castsi512_ps(_mm512_and_si512(pair, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static V load_bf16(const void* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  // Sixteen signed bytes.
  static V load_codes(const void* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
  }
  static V load_f16(const void* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))}; }
  // `count` bits from `shift` on of each of sixteen words of 16 bits.
  static V load_bits(const void* p, unsigned shift, unsigned count) {
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
    const __m512i mask = _mm512_set1_epi32((1 << count) - 1);
    return {_mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(words, shift), mask))};
  }
  // Byte `which` of each of sixteen pairs of signed bytes.
  static V load_signed_bytes(const void* p, size_t which) {
    const __m512i pair = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
    return {_mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(pair, which == 0 ? 24 : 16), 24))};
  }
  // Byte i of a lane becomes the low byte of a float 2^23 + that.
  static void load_bytes(__m512i lane, float zero, V (&code)[4]) {
    const __m512i power = _mm512_set1_epi32(0x4b000000);
    for (int i = 0; i < 4; ++i) {
      const __m512i pick = _mm512_set4_epi32(12 + i, 8 + i, 4 + i, i);
      const __m512i bits = _mm512_mask_shuffle_epi8(power, 0x1111111111111111u, lane, pick);
      code[i].v = _mm512_sub_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(8388608.0f + zero));
    }
  }
  // Sixteen columns of four codes: made unsigned by adding 128.
  static void load_int8(const void* p, V (&code)[4]) {
    load_bytes(_mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128)), 128, code);
  }
  // Sixteen columns of four bytes, whose bits `flip` are flipped, less `zero`.
  static void load_bytes(const void* p, uint8_t flip, float zero, V (&code)[4]) {
    const __m512i bits = _mm512_set1_epi8(static_cast<char>(flip));
    load_bytes(_mm512_xor_si512(_mm512_loadu_si512(p), bits), zero, code);
  }
  // Sixteen columns of four codes of 6 bits: their low 4 bits are nibble `part` of the bytes at `low`, their high 2
  // bits number `step` of those at `high`.
  static __m512i join_int6(const void* low, const void* high, unsigned part, unsigned step) {
    const auto shifted = [](const void* from, unsigned by) {
      return _mm512_srl_epi32(_mm512_loadu_si512(from), _mm_cvtsi32_si128(static_cast<int>(by)));
    };
    const __m512i bottom = _mm512_and_si512(shifted(low, 4 * part), _mm512_set1_epi8(15));
    const __m512i top = _mm512_and_si512(shifted(high, 2 * step), _mm512_set1_epi8(3));
    return _mm512_or_si512(bottom, _mm512_slli_epi32(top, 4));
  }
  static void load_int6(const void* low, const void* high, unsigned part, unsigned step, V (&code)[4]) {
    load_bytes(join_int6(low, high, part, step), 32, code);
  }
  // The permutation reads only the four low bits of a lane, so it is a table from nibble to code.
  static void look_up(const void* p, __m512 table, V (&code)[8]) {
    const __m512i lane = _mm512_loadu_si512(p);
    for (int i = 0; i < 4; ++i) {
      code[i].v = _mm512_permutexvar_ps(_mm512_srli_epi32(lane, static_cast<unsigned>(8 * i)), table);
      code[i + 4].v = _mm512_permutexvar_ps(_mm512_srli_epi32(lane, static_cast<unsigned>(8 * i + 4)), table);
    }
  }
  static void load_int4(const void* p, V (&code)[8]) {
    look_up(p, _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7), code);
  }
  static void load_uint4(const void* p, V (&code)[8]) {
    look_up(p, _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), code);
  }
  static void load_mxfp4(const void* p, V (&code)[8]) {
    look_up(p, _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), code);
  }
};

struct I {
  __m512i v;

  /// How much larger than the code the byte of an activation is, before int8 weights; where it is, bytes of q8_0
  /// weights are made unsigned, too.
#if defined(__AVX512VNNI__)
  static constexpr unsigned kZero = 128;
#else
  static constexpr unsigned kZero = 0;
#endif

  static I set(int32_t a) { return {_mm512_set1_epi32(a)}; }
  static I load(const void* p) { return {_mm512_loadu_si512(p)}; }
  static void store(void* p, I a) { _mm512_storeu_si512(p, a.v); }
  static I add(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
  static I sub(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
  /// Four signed bytes as unsigned ones that are larger by 128.
  static I plus_128(I a) { return {_mm512_xor_si512(a.v, _mm512_set1_epi8(-128))}; }
  static I times_128(I a) { return {_mm512_slli_epi32(a.v, 7)}; }
  static I low_nibbles(I a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
  static I high_nibbles(I a) { return low_nibbles({_mm512_srli_epi16(a.v, 4)}); }
  static V to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
  /// Values of e2m1 nibbles, doubled, plus 12: no less than 0.
  static I mxfp4(I nibbles) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return {_mm512_shuffle_epi8(table, nibbles.v)};
  }
  /// kCount bits of each byte, from `shift` on.
  template <unsigned kCount>
  static I bits(I a, size_t shift) {
    const __m512i mask = _mm512_set1_epi8((1 << kCount) - 1);
    return {_mm512_and_si512(_mm512_srli_epi32(a.v, static_cast<unsigned>(shift)), mask)};
  }
  /// Bytes `low` with the bits of `high` from `shift` on.
  static I with_high(I low, I high, unsigned shift) {
    return {_mm512_or_si512(low.v, _mm512_slli_epi32(high.v, shift))};
  }
  /// Sixteen signed bytes at `numbers`, by their places.
  static I look_up(const int8_t* numbers, I places) {
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
    return {_mm512_shuffle_epi8(table, places.v)};
  }
  /// bf16 numbers of two neighbours in a column: `rest` has signs and mantissas, `code` exponents, 0 or less `base`, in
  /// the order of coded_byte().
  static void bf16_pairs(I rest, I code, I base, I& first, I& second) {
    const __m512i exponent = _mm512_maskz_add_epi8(_mm512_test_epi8_mask(code.v, code.v), code.v, base.v);
    const __m512i sign = _mm512_set1_epi8(-128);
    // Chooses bits of its second operand where the first one has them, else of the third.
    constexpr int kChoose = 0xca;
    const __m512i high = _mm512_ternarylogic_epi32(sign, rest.v, _mm512_srli_epi16(exponent, 1), kChoose);
    const __m512i low = _mm512_ternarylogic_epi32(sign, _mm512_slli_epi16(exponent, 7), rest.v, kChoose);
    first.v = _mm512_unpacklo_epi8(low, high);
    second.v = _mm512_unpackhi_epi8(low, high);
  }
  /// What V::load_int6() reads, plus 32: no less than 0.
  static I int6(const void* low, const void* high, unsigned part, unsigned step) {
    return {V::join_int6(low, high, part, step)};
  }
  // acc + u · s in each lane, u four unsigned bytes and s four signed ones. Exact; without VNNI where the sum of two
  // products fits into 16 bits.
  static I dot(I acc, I u, I s) {
#if defined(__AVX512VNNI__)
    // Inline assembly, because GCC 12 copies and spills the sums around the intrinsic.
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc.v) : "v"(u.v), "v"(s.v));
    return acc;
#else
    const __m512i pairs = _mm512_maddubs_epi16(u.v, s.v);
    return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
#endif
  }
  // acc + a · w in each lane, with four codes of activations, from -127 to 127, and four signed bytes. Exact.
  static I dot_signed(I acc, I a, I w) {
    const __mmask64 negative = _mm512_movepi8_mask(w.v);
    return dot(acc, {_mm512_abs_epi8(w.v)}, {_mm512_mask_sub_epi8(a.v, negative, _mm512_setzero_si512(), a.v)});
  }
};

}  // namespace
