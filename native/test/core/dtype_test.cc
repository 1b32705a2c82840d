#include "core/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/sha256.h"
#include "doctest/doctest.h"

namespace {

using namespace sida;

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

TEST_CASE("dtype: every name is read back") {
  for (int i = 0; i <= static_cast<int>(Dtype::kC64); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    CHECK(parse_dtype(dtype_name(dtype)) == dtype);
  }
  CHECK_FALSE(parse_dtype("f32").has_value());
  CHECK_FALSE(parse_dtype("").has_value());
  CHECK(dtype_bits(Dtype::kF4) == 4);
  CHECK(dtype_bits(Dtype::kF6E2M3) == 6);
  CHECK(dtype_bits(Dtype::kBF16) == 16);
}

TEST_CASE("dtype: bf16 round-trips all 65,536 values and keeps NaN") {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const float value = bf16_to_f32(half);
    if (std::isnan(value)) {
      CHECK(std::isnan(bf16_to_f32(f32_to_bf16(value))));
    } else if (f32_to_bf16(value) != half) {
      FAIL("bf16 ", i, " came back as ", f32_to_bf16(value));
    }
  }
}

TEST_CASE("dtype: f32 to bf16 rounds to nearest even") {
  CHECK(f32_to_bf16(std::bit_cast<float>(0x3f808000u)) == 0x3f80);  // tie, even below
  CHECK(f32_to_bf16(std::bit_cast<float>(0x3f818000u)) == 0x3f82);  // tie, even above
  CHECK(f32_to_bf16(std::bit_cast<float>(0x3f808001u)) == 0x3f81);
  CHECK(f32_to_bf16(std::bit_cast<float>(0x3f807fffu)) == 0x3f80);
  CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(f32_to_bf16(-0.0f) == 0x8000);
  // A signalling NaN with its payload in the low half stays a NaN.
  CHECK((f32_to_bf16(std::bit_cast<float>(0xff800001u)) & 0x7fff) > 0x7f80);
}

TEST_CASE("dtype: f16 to f32 matches arithmetic for all 65,536 values") {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint32_t exponent = i >> 10 & 31;
    const double mantissa = i & 0x3ff;
    double expected = exponent == 0 ? std::ldexp(mantissa, -24)
                                    : std::ldexp(mantissa + 1024, static_cast<int>(exponent) - 25);
    if (exponent == 31) {
      expected =
          mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    }
    if ((i & 0x8000) != 0) expected = -expected;
    const float value = f16_to_f32(static_cast<uint16_t>(i));
    if (std::isnan(expected) ? !std::isnan(value) : bits(value) != bits(static_cast<float>(expected))) {
      FAIL("f16 ", i, " reads ", value, ", expected ", expected);
    }
  }
}

TEST_CASE("dtype: array forms agree with the scalar ones") {
  const uint16_t halves[] = {0, 1, 0x3c00, 0x7c00, 0x8001};
  float from_f16[5];
  float from_bf16[5];
  f16_to_f32(halves, 5, from_f16);
  bf16_to_f32(halves, 5, from_bf16);
  for (int i = 0; i < 5; ++i) {
    CHECK(bits(from_f16[i]) == bits(f16_to_f32(halves[i])));
    CHECK(bits(from_bf16[i]) == bits(bf16_to_f32(halves[i])));
  }
}

TEST_CASE("error: outside text is escaped and cut") {
  CHECK(escape_text("plain") == "plain");
  CHECK(escape_text(std::string_view("a\0b\n\x1b[31m", 9)) == "a\\u0000b\\u000a\\u001b[31m");
  CHECK(escape_text("\u202egnp") == "\\u202egnp");
  CHECK(escape_text("\U000e0041") == "\\u{e0041}");
  CHECK(escape_text("a\"b\\") == "a\\\"b\\\\");
  CHECK(escape_text("\xff\xc0") == "\\xff\\xc0");
  CHECK(escape_text("schön") == "schön");
  const std::string cut = escape_text(std::string(1 << 20, 'x'));
  CHECK(cut.size() < 160);
  CHECK(cut.find("(1048576 bytes)") != std::string::npos);
}

TEST_CASE("sha256: known answers") {
  const auto sha256 = [](std::string_view text) {
    Sha256 hash;
    hash.update(text);
    return hash.finish();
  };
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
