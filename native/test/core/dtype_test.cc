// Numbers of files: types, their rounding, and the numbers of GGUF's blocks against the public decoder.
#include "core/dtype.h"

#include "core/ggml_blocks.h"
#include "support/gguf_cases.h"

namespace {

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
    double expected =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, static_cast<int>(exponent) - 25);
    if (exponent == 31) {
      expected = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
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

TEST_CASE("f16: rounds to nearest even, and keeps every number that it has") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) REQUIRE(f32_to_f16(value) == bits);
  }
  CHECK(std::isnan(f16_to_f32(f32_to_f16(NAN))));
  CHECK(f32_to_f16(65519.9f) == 0x7bff);
  CHECK(f32_to_f16(65520.0f) == 0x7c00);
  CHECK(f32_to_f16(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(f32_to_f16(1.0f + 3 * 0x1p-11f) == 0x3c02);
  CHECK(f32_to_f16(0x1p-25f) == 0);
  CHECK(f32_to_f16(0x1.8p-24f) == 2);
  CHECK(f32_to_f16(-0x1.2p-25f) == 0x8001);
}

std::vector<float> decode(const TensorInfo& tensor, const std::vector<std::byte>& data) {
  std::vector<float> numbers(tensor.elements());
  if (is_blocked(tensor.dtype)) {
    dequantize(tensor.dtype, data.data(), data.size() / dtype_block(tensor.dtype).bytes, numbers.data());
  } else if (tensor.dtype == Dtype::kF32) {
    std::memcpy(numbers.data(), data.data(), data.size());
  } else {
    std::vector<uint16_t> halves(tensor.elements());
    std::memcpy(halves.data(), data.data(), data.size());
    tensor.dtype == Dtype::kF16 ? f16_to_f32(halves.data(), halves.size(), numbers.data())
                                : bf16_to_f32(halves.data(), halves.size(), numbers.data());
  }
  return numbers;
}

TEST_CASE("numbers of GGUF: those of the public decoder, bit by bit, for any codes and finite scales") {
  const GgufCases cases;
  std::map<Dtype, int> tensors;
  for (const TensorInfo& tensor : cases.tensors()) {
    CASE(tensor.name);
    std::string type = dtype_name(tensor.dtype);
    for (char& letter : type) letter = static_cast<char>(std::tolower(letter));
    CHECK(tensor.name.starts_with(type + "."));
    const std::vector<float> found = decode(tensor, cases.data(tensor)), expected = cases.numbers(tensor);
    REQUIRE(found.size() == expected.size());
    CHECK(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)) == 0);
    ++tensors[tensor.dtype];
  }
  CHECK(tensors.size() == 8);
  CHECK(tensors[Dtype::kGgmlMxfp4] == 4);
}

}  // namespace
