// Every instruction set against the scalar reference, bit for bit, and the reference against float64.
#include "ops/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "doctest/doctest.h"
#include "support/kernel_sets.h"
#include "support/random_floats.h"

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

TEST_CASE("kernels: SwiGLU is silu(y) · x·W over the whole range of y, NaN where y is not finite") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> gates = {0.0f, -0.0f,  1.0f,   -1.0f, 20.0f, -20.0f, 86.0f,     -86.0f,    88.5f,
                                    -89,  500.0f, -500.0f, 3e38f, -3e38f, 1e-45f, kInfinity, -kInfinity, NAN};
  const std::vector<float> weights(32, 2.0f);
  const float x = 1.5f;
  for (const CpuKernels* kernels : kernel_sets()) {
    CAPTURE(std::string(kernels->isa));
    std::vector<float> y(32);
    std::copy(gates.begin(), gates.end(), y.begin());
    kernels->gemm({&x, 1, 1, reinterpret_cast<const std::byte*>(weights.data()), kF32Format, 1, gates.size(), 0, 1,
                   y.data(), 32, Epilogue::kSwiglu});
    for (size_t i = 0; i < gates.size(); ++i) {
      CAPTURE(gates[i]);
      if (!std::isfinite(gates[i])) {
        CHECK(std::isnan(y[i]));
      } else if (std::abs(gates[i]) < 1e38f) {
        const double g = gates[i], expected = 3 * g / (1 + std::exp(-g));
        CHECK(std::abs(y[i] - expected) <= 1e-6 * std::abs(expected) + 1e-35);
      }
    }
    CHECK(y[13] == 0);
    for (size_t i = gates.size(); i < 32; ++i) CHECK(y[i] == 0);
  }
}

TEST_CASE("kernels: clip clamps, and an infinity does not become a limit") {
  for (const size_t n : {1, 16, 37}) {
    const auto before = random_floats(n, 12);
    for (const CpuKernels* kernels : kernel_sets()) {
      CAPTURE(std::string(kernels->isa));
      std::vector<float> x = before;
      kernels->clip(x.data(), n, 0.5f);
      for (size_t i = 0; i < n; ++i) CHECK(x[i] == std::clamp(before[i], -0.5f, 0.5f));
      for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), NAN}) {
        x[n - 1] = bad;
        kernels->clip(x.data(), n, 0.5f);
        CHECK(std::isnan(x[n - 1]));
      }
    }
  }
}

TEST_CASE("kernels: rotate turns the first columns of each head, the same bits in all sets") {
  for (const size_t half : {1, 8, 16, 20, 64}) {
    const size_t rows = 3, stride = 2 * half + 5;
    const auto before = random_floats(rows * stride, 13), angles = random_floats(half, 14);
    std::vector<float> cosines(half), sines(half), reference;
    for (size_t j = 0; j < half; ++j) {
      cosines[j] = std::cos(angles[j]);
      sines[j] = std::sin(angles[j]);
    }
    for (const CpuKernels* kernels : kernel_sets()) {
      std::vector<float> x = before;
      kernels->rotate(x.data(), rows, stride, half, cosines.data(), sines.data());
      if (reference.empty()) reference = x;
      REQUIRE_MESSAGE(std::memcmp(x.data(), reference.data(), x.size() * 4) == 0, kernels->isa);
    }
    for (size_t r = 0; r < rows; ++r) {
      const float *from = &before[r * stride], *to = &reference[r * stride];
      for (size_t j = 0; j < half; ++j) {
        const double a = from[j], b = from[half + j], c = cosines[j], s = sines[j];
        CHECK(std::abs(to[j] - (a * c - b * s)) < 1e-6);
        CHECK(std::abs(to[half + j] - (b * c + a * s)) < 1e-6);
      }
      for (size_t j = 2 * half; j < stride; ++j) CHECK(to[j] == from[j]);
    }
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

/// `count` pages of equal size, one after the other.
template <class T>
std::vector<const std::byte*> pages_of(const std::vector<T>& memory, size_t count) {
  std::vector<const std::byte*> pages;
  for (size_t p = 0; p < count; ++p) {
    pages.push_back(reinterpret_cast<const std::byte*>(&memory[p * (memory.size() / count)]));
  }
  return pages;
}

/// `values` rounded to bf16, and the same as floats again.
struct Rounded {
  std::vector<uint16_t> bits;
  std::vector<float> floats;

  explicit Rounded(const std::vector<float>& values) : floats(values.size()) {
    for (const float value : values) bits.push_back(f32_to_bf16(value));
    bf16_to_f32(bits.data(), bits.size(), floats.data());
  }
};

TEST_CASE("attention: pages in bf16 give the bits of pages in f32 that hold the rounded numbers") {
  constexpr size_t kDim = 24, kPadded = 32, kRows = 5, kKeys = 40, kPages = 3, kStride = 48;
  const Rounded k(random_floats(kPages * kDim * 16, 9)), v(random_floats(kPages * 16 * kPadded, 10)),
      latent(random_floats(kPages * 16 * kStride, 11));
  const auto q = random_floats(kRows * kDim, 8), latent_q = random_floats(kRows * kStride, 12);
  for (const CpuKernels* kernels : kernel_sets()) {
    std::vector<std::vector<float>> outputs, latent_outputs;
    for (const bool narrow : {false, true}) {
      const auto keys = narrow ? pages_of(k.bits, kPages) : pages_of(k.floats, kPages),
                 values = narrow ? pages_of(v.bits, kPages) : pages_of(v.floats, kPages),
                 rows = narrow ? pages_of(latent.bits, kPages) : pages_of(latent.floats, kPages);
      const KvFormat format = narrow ? KvFormat::kBf16 : KvFormat::kF32;
      std::vector<float> out = q, latent_out(kRows * kStride), scratch(4 * kPages * 16);
      AttentionTask task{out.data(), kDim,    kRows, kDim,       kPadded, keys.data(),    values.data(), kKeys, 1,
                         0.3f,       nullptr, out.data(), kDim, scratch.data(), kPages * 16};
      task.window = 20;
      task.format = format;
      kernels->attention(task);
      kernels->latent_attention({latent_q.data(), kRows, 32, kStride, rows.data(), kKeys, 1, 0.3f, latent_out.data(),
                                 scratch.data(), kPages * 16, format});
      outputs.push_back(out);
      latent_outputs.push_back(latent_out);
    }
    CHECK_MESSAGE(outputs[0] == outputs[1], kernels->isa);
    CHECK_MESSAGE(latent_outputs[0] == latent_outputs[1], kernels->isa);
  }
}

TEST_CASE("layer_norm: agrees with float64 and across instruction sets, in place too") {
  for (const size_t n : {1, 2, 15, 16, 17, 64, 100}) {
    auto x = random_floats(2 * n, 6);
    for (float& value : x) value = value * 20 + 5;
    const auto weight = random_floats(n, 7), bias = random_floats(n, 8);
    std::vector<float> first;
    for (const CpuKernels* kernels : kernel_sets()) {
      std::vector<float> y(2 * n), in_place = x;
      kernels->layer_norm(x.data(), weight.data(), bias.data(), 1e-5f, 2, n, y.data());
      kernels->layer_norm(in_place.data(), weight.data(), bias.data(), 1e-5f, 2, n, in_place.data());
      CHECK(std::memcmp(y.data(), in_place.data(), 2 * n * 4) == 0);
      if (first.empty()) first = y;
      CHECK(std::memcmp(y.data(), first.data(), 2 * n * 4) == 0);
    }
    const auto count = static_cast<double>(n);
    for (size_t row = 0; row < 2; ++row) {
      double sum = 0, squares = 0;
      for (size_t i = 0; i < n; ++i) sum += x[row * n + i];
      for (size_t i = 0; i < n; ++i) squares += std::pow(x[row * n + i] - sum / count, 2);
      for (size_t i = 0; i < n; ++i) {
        const double normal = (x[row * n + i] - sum / count) / std::sqrt(squares / count + 1e-5);
        CHECK(std::abs(first[row * n + i] - (normal * weight[i] + bias[i])) < 2e-5);
      }
    }
  }
}

TEST_CASE(
    "attention: agrees with float64 and across instruction sets, causal and not, with and without bias") {
  const size_t d_kv = 24, padded = 32, stride = 24;
  const float scale = 0.3f;
  for (const size_t keys : {1, 5, 16, 17, 50}) {
    for (const size_t rows : {1, 3, 4, 6}) {
      for (const bool causal : {false, true}) {
        for (const bool with_bias : {false, true}) {
          const size_t most = keys + (causal ? rows - 1 : 0), pages = (most + 15) / 16;
          const auto q = random_floats(rows * d_kv, 8);
          const auto k = random_floats(pages * d_kv * 16, 9);
          const auto v = random_floats(pages * 16 * padded, 10);
          const auto bias = random_floats(rows + pages * 16 + 32, 11);
          const auto k_pages = pages_of(k, pages), v_pages = pages_of(v, pages);
          const float* center = bias.data() + rows;
          std::vector<float> reference;
          for (const CpuKernels* kernels : kernel_sets()) {
            std::vector<float> out = q, scratch(4 * pages * 16);
            kernels->attention({out.data(), stride, rows, d_kv, padded, k_pages.data(), v_pages.data(), keys,
                                causal ? 1u : 0u, scale, with_bias ? center : nullptr, out.data(), stride,
                                scratch.data(), pages * 16});
            if (reference.empty()) {
              reference = out;
              for (size_t r = 0; r < rows; ++r) {
                const size_t seen = keys + (causal ? r : 0);
                std::vector<double> weight(seen);
                double top = -1e300, sum = 0;
                for (size_t j = 0; j < seen; ++j) {
                  for (size_t d = 0; d < d_kv; ++d)
                    weight[j] += static_cast<double>(q[r * d_kv + d]) * k[(j / 16 * d_kv + d) * 16 + j % 16];
                  weight[j] *= scale;
                  if (with_bias) weight[j] += center[static_cast<long>(j) - static_cast<long>(r)];
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
