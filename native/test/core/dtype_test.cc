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

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> all(65536);
  std::iota(all.begin(), all.end(), uint16_t{0});
  return all;
}

TEST_CASE("dtype: bf16 round-trips all 65,536 values and keeps NaN") {
  std::vector<float> values(65536);
  bf16_to_f32(all_halves().data(), values.size(), values.data());
  for (const uint16_t half : all_halves()) {
    const float value = bf16_to_f32(half);
    REQUIRE(bits(value) == bits(values[half]));
    REQUIRE((std::isnan(value) ? std::isnan(bf16_to_f32(f32_to_bf16(value))) : f32_to_bf16(value) == half));
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

TEST_CASE("dtype: f16 to f32 matches arithmetic for all 65,536 values, f32 to f16 rounds to nearest even") {
  std::vector<float> values(65536);
  f16_to_f32(all_halves().data(), values.size(), values.data());
  for (const uint16_t half : all_halves()) {
    const int exponent = half >> 10 & 31, mantissa = half & 0x3ff;
    double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
    if (exponent == 31) expected = mantissa == 0 ? INFINITY : NAN;
    if ((half & 0x8000) != 0) expected = -expected;
    const float value = f16_to_f32(half);
    REQUIRE(bits(value) == bits(values[half]));
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(value));
    } else {
      REQUIRE(bits(value) == bits(static_cast<float>(expected)));
      REQUIRE(f32_to_f16(value) == half);
    }
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
    CHECK(same_bits(found, expected));
    ++tensors[tensor.dtype];
  }
  CHECK(tensors.size() == 21);
  CHECK(tensors[Dtype::kGgmlMxfp4] == 4);
}

}  // namespace
