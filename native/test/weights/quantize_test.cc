#include "weights/quantize.h"

#include "core/dtype.h"
#include "support/kernel_sets.h"
#include "weights/panels.h"

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

/// `weight`, (n, k), packed and read back.
std::vector<float> round_trip(const std::vector<float>& weight, size_t n, size_t k, WeightFormat format) {
  std::vector<std::byte> panels(panel_matrix_bytes(n, k, format));
  pack_panels(weight.data(), n, k, format, panels.data());
  std::vector<float> out(n * k);
  for (size_t row = 0; row < n; ++row) read_panel_row({panels.data(), format, k, n}, row, &out[row * k]);
  return out;
}

TEST_CASE("quantize: a weight is within half a step, the largest keeps its code") {
  const auto weight = random_floats(1000, 1);
  std::vector<int8_t> codes(weight.size());
  const float scale8 = quantize_int8(weight.data(), weight.size(), codes.data());
  int top = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    CHECK(std::abs(codes[i] * scale8 - weight[i]) <= 0.5001f * scale8);
    top = std::max(top, std::abs(static_cast<int>(codes[i])));
  }
  CHECK(top == 127);
  const float scale4 = bf16_to_f32(quantize_int4(weight.data(), weight.size(), codes.data()));
  top = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    // A scale rounded down to bf16 leaves the largest weight up to 7 · 2^-8 beyond code 7.
    CHECK(std::abs(codes[i] * scale4 - weight[i]) <= 0.5f * scale4 * (1 + 7.0f / 128));
    top = std::max(top, std::abs(static_cast<int>(codes[i])));
  }
  CHECK(top == 7);
}

TEST_CASE("quantize: e2m1 numbers of any power of two keep their values in mxfp4") {
  constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (const int power : {-127, -126, -125, -60, -1, 0, 7, 120}) {
    // The largest number of a group decides its scale.
    for (size_t most = 0; most < 8; ++most) {
      std::vector<float> weight;
      for (size_t i = 0; i < 32; ++i) {
        const float number = std::ldexp(kNumbers[i % (most + 1)], power);
        weight.push_back(i % 3 == 0 ? -number : number);
      }
      CASE(power, most);
      CHECK(round_trip(weight, 1, 32, kMxfp4Format) == weight);
    }
  }
}

TEST_CASE("quantize: mxfp4 takes the nearest number, and NaN as its scale where a weight is not finite") {
  const std::vector<float> weight{4, 0.2f, 0.3f, 2.4f, 2.6f, -3.4f, 5.1f, -0.24f, 7.9f, 2.5f, 3.5f, 0.25f};
  const std::vector<float> nearest{4, 0, 0.5f, 2, 3, -3, 6, 0, 6, 2, 4, 0};
  CHECK(round_trip(weight, 1, weight.size(), kMxfp4Format) == nearest);
  for (const auto& [odd, format] : grid(std::vector<float>{kInfinity, -kInfinity, NAN},
                                        std::vector<WeightFormat>{kMxfp4Format, kQ8_0Format, kQ4_0Format})) {
    for (const float value : round_trip({1, odd, 3}, 1, 3, format)) CHECK(std::isnan(value));
  }
}

TEST_CASE("quantize: weights beyond the largest f16 scale have scale NaN") {
  CHECK(round_trip({8e6f, 1}, 1, 2, kQ8_0Format)[0] == doctest::Approx(8e6).epsilon(1e-3));
  CHECK(std::isnan(round_trip({9e6f, 1}, 1, 2, kQ8_0Format)[0]));
  CHECK(std::isnan(round_trip({-9e5f, 1}, 1, 2, kQ4_0Format)[0]));
}

TEST_CASE("quantize: zero weights have scale 0, NaN weights have scale NaN") {
  std::vector<int8_t> codes(4, 9);
  const std::vector<float> zero(4);
  CHECK(quantize_int8(zero.data(), 4, codes.data()) == 0);
  CHECK(codes == std::vector<int8_t>(4));
  CHECK(quantize_int4(zero.data(), 4, codes.data()) == 0);
  for (const float odd : {kInfinity, -kInfinity, NAN}) {
    const std::vector<float> weight{1, odd, 3, 4};
    CHECK(std::isnan(quantize_int8(weight.data(), 4, codes.data())));
    CHECK(std::isnan(bf16_to_f32(quantize_int4(weight.data(), 4, codes.data()))));
  }
}

TEST_CASE("quantize: the largest and the smallest floats stay finite") {
  for (const float size : {kMax, -kMax, kTiny, 100 * kTiny, 1e-38f}) {
    const std::vector<float> weight{size, size / 2, 0, -size};
    for (const WeightFormat format : {kInt8Format, int4_format(32)}) {
      const auto back = round_trip(weight, 1, 4, format);
      for (size_t i = 0; i < 4; ++i) {
        CHECK(std::isfinite(back[i]));
        CHECK(std::abs(back[i] - weight[i]) <= std::abs(size) / 12 + 127 * kTiny);
      }
    }
  }
}

TEST_CASE("quantize: a NaN spoils only its own channel or group") {
  const size_t n = 33, k = 70;
  auto weight = random_floats(n * k, 2);
  weight[5 * k + 40] = NAN;
  weight[32 * k + 69] = kInfinity;
  for (const WeightFormat format : {kInt8Format, int4_format(32)}) {
    const auto back = round_trip(weight, n, k, format);
    for (size_t at = 0; at < n * k; ++at) {
      const size_t row = at / k, group = at % k / 32;
      const bool int8 = format == kInt8Format;
      CHECK(std::isnan(back[at]) == ((row == 5 && (int8 || group == 1)) || (row == 32 && (int8 || group == 2))));
    }
  }
}

TEST_CASE("panels: a row reads back as its codes times its scale, short last group included") {
  for (const size_t k : {1, 3, 31, 32, 33, 63, 64, 65, 100, 129}) {
    const size_t n = 35;
    const auto weight = random_floats(n * k, 3);
    for (const uint32_t group : {32u, 64u, 128u}) {
      const auto back = round_trip(weight, n, k, {WeightType::kInt4, group});
      std::vector<int8_t> codes(k);
      for (size_t row = 0; row < n; ++row) {
        for (size_t begin = 0; begin < k; begin += group) {
          const size_t count = std::min<size_t>(group, k - begin);
          const float scale = bf16_to_f32(quantize_int4(&weight[row * k + begin], count, codes.data()));
          for (size_t i = 0; i < count; ++i) REQUIRE(back[row * k + begin + i] == codes[i] * scale);
        }
      }
    }
    CHECK(round_trip(weight, n, k, kF32Format) == weight);
    const auto back = round_trip(weight, n, k, kInt8Format);
    std::vector<int8_t> codes(k);
    for (size_t row = 0; row < n; ++row) {
      const float scale = quantize_int8(&weight[row * k], k, codes.data());
      for (size_t i = 0; i < k; ++i) REQUIRE(back[row * k + i] == codes[i] * scale);
    }
  }
}

}  // namespace
