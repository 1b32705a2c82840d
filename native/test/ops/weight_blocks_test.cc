// Blocks of GGUF files, packed and read back, against the public decoder's numbers.
#include "ops/weight_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "doctest/doctest.h"
#include "ops/panels.h"
#include "support/gguf_cases.h"
#include "support/weight_formats.h"

namespace sida {
namespace {

/// Enough for two panels, the second one not full.
constexpr size_t kRows = 36;

template <typename T>
std::vector<T> repeated(const std::vector<T>& rows, size_t times) {
  std::vector<T> out;
  for (size_t i = 0; i < times; ++i) out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

/// The (kRows, k) numbers of packed panels.
std::vector<float> unpacked(const std::vector<std::byte>& panels, WeightFormat format, size_t k) {
  std::vector<float> numbers(kRows * k);
  for (size_t row = 0; row < kRows; ++row) read_panel_row({panels.data(), format, k, kRows}, row, &numbers[row * k]);
  return numbers;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("weight blocks: panels give the public decoder's numbers, bit for bit, for any codes and finite scales") {
  const testing::GgufCases cases;
  size_t packed = 0;
  for (const TensorInfo& tensor : cases.tensors()) {
    if (!is_blocked(tensor.dtype)) continue;
    CAPTURE(tensor.name);
    const size_t k = tensor.shape.back(), times = kRows / tensor.shape.front();
    const WeightFormat format = format_of_blocks(tensor.dtype);
    std::vector<std::byte> panels(panel_matrix_bytes(kRows, k, format));
    pack_blocks(tensor.dtype, repeated(cases.data(tensor), times).data(), kRows, k, panels.data());
    CHECK(same_bits(unpacked(panels, format, k), repeated(cases.numbers(tensor), times)));
    ++packed;
  }
  CHECK(packed == 18);
}

TEST_CASE("weight blocks: weights are quantized to q8_0 and q4_0 as the public encoder does") {
  const testing::GgufCases cases;
  const TensorInfo& weights = cases.tensor("f32.weights");
  const size_t k = weights.shape.back(), times = kRows / weights.shape.front();
  for (const WeightFormat format : {kQ8_0Format, kQ4_0Format}) {
    CAPTURE(std::string(weight_type_name(format.type)));
    std::vector<std::byte> panels(panel_matrix_bytes(kRows, k, format));
    pack_panels(repeated(cases.numbers(weights), times).data(), kRows, k, format, panels.data());
    const TensorInfo& encoded = cases.tensor(std::string(weight_type_name(format.type)) + ".weights");
    CHECK(same_bits(unpacked(panels, format, k), repeated(cases.numbers(encoded), times)));
  }
}

TEST_CASE("weight blocks: a scale that is no number makes NaN or infinity of its weights only") {
  for (const Dtype dtype : {Dtype::kQ8_0, Dtype::kQ4_0, Dtype::kQ4_K, Dtype::kQ6_K}) {
    for (const uint16_t bad : {uint16_t{0x7c00}, uint16_t{0xfc00}, uint16_t{0x7e01}}) {
      CAPTURE(std::string(dtype_name(dtype)));
      const WeightFormat format = format_of_blocks(dtype);
      const size_t inputs = dtype_block(dtype).elements;
      auto blocks = random_blocks(dtype, 2, 512, 3);
      std::memcpy(blocks.data() + blocks.size() / 2 + (dtype == Dtype::kQ6_K ? 208 : 0), &bad, 2);
      std::vector<std::byte> panels(panel_matrix_bytes(2, 512, format));
      pack_blocks(dtype, blocks.data(), 2, 512, panels.data());
      std::vector<float> row(512);
      const auto finite = [](float value) { return std::isfinite(value); };
      read_panel_row({panels.data(), format, 512, 2}, 0, row.data());
      CHECK(std::all_of(row.begin(), row.end(), finite));
      read_panel_row({panels.data(), format, 512, 2}, 1, row.data());
      const auto end = row.begin() + static_cast<ptrdiff_t>(inputs);
      CHECK_FALSE(std::all_of(row.begin(), end, finite));
      CHECK(std::all_of(end, row.end(), finite));
    }
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

}  // namespace
}  // namespace sida
