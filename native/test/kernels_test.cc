// Every instruction set against the scalar reference, bit for bit, and the reference against float64.
#include "ops/kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "kernel_sets.h"
#include "random_floats.h"

namespace sida {
namespace {

TEST_CASE("kernels: ReLU makes NaN of what is not finite, and changes no finite bit") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const CpuKernels* kernels : kernel_sets()) {
    CAPTURE(std::string(kernels->isa));
    const float weights[32] = {
        kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), -2.0f, 3.0f, 3e38f, -3e38f, 1e-45f};
    const float x = 1.0f;
    std::vector<float> y(32);
    kernels->gemm({&x, 1, 1, reinterpret_cast<const std::byte*>(weights), kF32Format, 1, 32, 0, 1, y.data(),
                   32, Epilogue::kRelu});
    for (size_t i = 0; i < 3; ++i) CHECK(std::isnan(y[i]));
    CHECK(std::vector<float>(y.begin() + 3, y.begin() + 8) == std::vector<float>{0, 3, 3e38f, 0, 1e-45f});
    for (size_t i = 3; i < 32; ++i) CHECK(!std::signbit(y[i]));
  }
}

TEST_CASE("softmax and rms_norm: agree with float64 and across instruction sets") {
  for (const size_t n : {1, 2, 15, 16, 17, 64, 100}) {
    auto x = random_floats(n, 6);
    for (float& value : x) value *= 20;
    const auto weight = random_floats(n, 7);
    std::vector<float> soft, norm;
    for (const CpuKernels* kernels : kernel_sets()) {
      std::vector<float> p(n), y(n);
      kernels->softmax(x.data(), n, p.data());
      kernels->rms_norm(x.data(), weight.data(), 1e-6f, 1, n, y.data());
      if (soft.empty()) {
        soft = p;
        norm = y;
        double top = x[0], sum = 0, squares = 0;
        for (const float value : x) top = std::max<double>(top, value);
        for (const float value : x) sum += std::exp(value - top);
        for (const float value : x) squares += static_cast<double>(value) * value;
        for (size_t i = 0; i < n; ++i) {
          CHECK(std::abs(p[i] - std::exp(x[i] - top) / sum) < 1e-6);
          CHECK(y[i] == doctest::Approx(x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-6) * weight[i])
                            .epsilon(1e-5));
        }
      }
      CHECK(std::memcmp(p.data(), soft.data(), n * 4) == 0);
      CHECK(std::memcmp(y.data(), norm.data(), n * 4) == 0);
    }
  }
}

TEST_CASE(
    "attention: agrees with float64 and across instruction sets, causal and not, with and without bias") {
  const size_t d_kv = 24, padded = 32, stride = 24;
  for (const size_t keys : {1, 5, 16, 17, 50}) {
    for (const size_t rows : {1, 3, 4, 6}) {
      for (const bool causal : {false, true}) {
        for (const bool with_bias : {false, true}) {
          const size_t most = keys + (causal ? rows - 1 : 0), pages = (most + 15) / 16;
          const auto q = random_floats(rows * d_kv, 8);
          const auto k = random_floats(pages * d_kv * 16, 9);
          const auto v = random_floats(pages * 16 * padded, 10);
          const auto bias = random_floats(rows + pages * 16 + 32, 11);
          std::vector<const float*> k_pages, v_pages;
          for (size_t p = 0; p < pages; ++p) {
            k_pages.push_back(&k[p * d_kv * 16]);
            v_pages.push_back(&v[p * 16 * padded]);
          }
          const float* center = bias.data() + rows;
          std::vector<float> reference;
          for (const CpuKernels* kernels : kernel_sets()) {
            std::vector<float> out = q, scratch(4 * pages * 16);
            kernels->attention({out.data(), stride, rows, d_kv, padded, k_pages.data(), v_pages.data(), keys,
                                causal ? 1u : 0u, with_bias ? center : nullptr, out.data(), stride,
                                scratch.data(), pages * 16});
            if (reference.empty()) {
              reference = out;
              for (size_t r = 0; r < rows; ++r) {
                const size_t seen = keys + (causal ? r : 0);
                std::vector<double> weight(seen);
                double top = -1e300, sum = 0;
                for (size_t j = 0; j < seen; ++j) {
                  weight[j] = with_bias ? center[static_cast<long>(j) - static_cast<long>(r)] : 0;
                  for (size_t d = 0; d < d_kv; ++d)
                    weight[j] += static_cast<double>(q[r * d_kv + d]) * k[(j / 16 * d_kv + d) * 16 + j % 16];
                  top = std::max(top, weight[j]);
                }
                for (double& w : weight) sum += w = std::exp(w - top);
                for (size_t d = 0; d < d_kv; ++d) {
                  double expected = 0;
                  for (size_t j = 0; j < seen; ++j) expected += weight[j] / sum * v[j * padded + d];
                  REQUIRE(std::abs(out[r * stride + d] - expected) < 2e-6);
                }
              }
            }
            REQUIRE_MESSAGE(std::memcmp(out.data(), reference.data(), out.size() * 4) == 0, kernels->isa);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sida
