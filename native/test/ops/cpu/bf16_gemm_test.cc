// GEMM with bf16 activations: each instruction set against the arithmetic that bf16_gemm_impl.h names, bit for bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/dtype.h"
#include "doctest/doctest.h"
#include "ops/cpu/linear.h"
#include "ops/panels.h"
#include "support/kernel_sets.h"
#include "support/random_floats.h"

namespace sida {
namespace {

struct Product {
  size_t rows, n, k;
  std::vector<float> x, w, bias;
  std::vector<std::byte> panels;

  Product(size_t rows_, size_t n_, size_t k_)
      : rows(rows_), n(n_), k(k_), x(random_floats(rows * k, 1)), w(random_floats(n * k, 2)) {
    pack();
  }

  void pack() {
    panels.resize(panel_matrix_bytes(n, k, kBf16Format));
    pack_panels(w.data(), n, k, kBf16Format, panels.data());
  }
  PanelMatrix matrix() const { return {panels.data(), kBf16Format, k, n}; }

  std::vector<float> run(const CpuKernels& kernels, Epilogue epilogue = Epilogue::kStore) const {
    std::vector<std::byte> memory(rounded_bytes(rows, k, kBf16Format));
    const RoundedRows rounded = rounded_rows(memory, rows, k, kBf16Format);
    kernels.round_rows({x.data(), k, rows, k, kBf16Format}, rounded);
    std::vector<float> y = random_floats(rows * n, 3);
    const size_t count = (n + kPanelColumns - 1) / kPanelColumns;
    kernels.gemm_rounded({nullptr, 0, rows, panels.data(), kBf16Format, k, n, 0, count, y.data(), n, epilogue,
                          bias.empty() ? nullptr : bias.data()},
                         rounded);
    return y;
  }

  /// Element (row, column) one operation at a time; correct where no number is below 2^-126.
  float element(size_t row, size_t column) const {
    float sum = 0;
    for (size_t begin = 0; begin < k; begin += 32) {
      float part[2] = {0, 0};
      for (size_t i = begin; i < std::min(begin + 32, k); ++i) {
        const float a = bf16_to_f32(f32_to_bf16(x[row * k + i])), b = bf16_to_f32(f32_to_bf16(w[column * k + i]));
        part[i % 2] = std::fma(a, b, part[i % 2]);
      }
      sum += part[0] + part[1];
    }
    return sum;
  }
};

TEST_CASE("bf16 gemm: every set computes what it should, bit for bit, on all tail sizes") {
  for (const size_t rows : {1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 41}) {
    for (const size_t n : {1, 31, 33, 64}) {
      for (const size_t k : {1, 2, 3, 31, 32, 33, 63, 64, 65, 100, 767}) {
        const Product p(rows, n, k);
        const std::vector<float> before = random_floats(rows * n, 3);
        std::vector<float> wanted(rows * n);
        for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = p.element(i / n, i % n);
        for (const CpuKernels* kernels : kernel_sets()) {
          CAPTURE(kernels->isa);
          CAPTURE(rows);
          CAPTURE(n);
          CAPTURE(k);
          const std::vector<float> y = p.run(*kernels);
          REQUIRE(std::memcmp(y.data(), wanted.data(), y.size() * 4) == 0);
          const std::vector<float> added = p.run(*kernels, Epilogue::kAdd), relu = p.run(*kernels, Epilogue::kRelu);
          for (size_t i = 0; i < y.size(); ++i) {
            REQUIRE(added[i] == before[i] + wanted[i]);
            REQUIRE(relu[i] == std::max(wanted[i], 0.0f));
          }
        }
        const std::vector<float> reference = p.run(*kernel_sets().front(), Epilogue::kSwiglu);
        for (const CpuKernels* kernels : kernel_sets()) {
          const std::vector<float> y = p.run(*kernels, Epilogue::kSwiglu);
          REQUIRE_MESSAGE(std::memcmp(y.data(), reference.data(), y.size() * 4) == 0, kernels->isa);
        }
      }
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("bf16 gemm: numbers below 2^-126 are zero in every set, and only while it runs") {
  Product p(20, 40, 70);
  // Products from 2^-160 to 2^-100, whose sums are partly below 2^-126; every fifth operand is below it itself.
  for (size_t i = 0; i < p.x.size(); ++i) {
    p.x[i] = std::ldexp(p.x[i], i % 5 == 0 ? -128 : -50 - static_cast<int>(i % 31));
  }
  for (size_t i = 0; i < p.w.size(); ++i) {
    p.w[i] = std::ldexp(p.w[i], i % 7 == 0 ? -130 : -50 - static_cast<int>(i % 29));
  }
  p.pack();
  std::vector<float> reference = p.run(*kernel_sets().front());
  CHECK(std::any_of(reference.begin(), reference.end(), [](float y) { return y != 0; }));
  CHECK(std::none_of(reference.begin(), reference.end(), [](float y) { return std::fpclassify(y) == FP_SUBNORMAL; }));
  for (const CpuKernels* kernels : kernel_sets()) {
    const std::vector<float> y = p.run(*kernels);
    CHECK_MESSAGE(std::memcmp(y.data(), reference.data(), y.size() * 4) == 0, kernels->isa);
  }
  volatile float least = std::numeric_limits<float>::min();
  CHECK(least / 2 > 0);
}

TEST_CASE("bf16 gemm: sums that round up to 2^-126 stay, those that round below it become zero") {
  for (const int exponent : {-148, -149, -150, -151, -152, -153, -160}) {
    Product p(17, 33, 4);
    std::fill(p.x.begin(), p.x.end(), 0.0f);
    std::fill(p.w.begin(), p.w.end(), 0.0f);
    for (size_t row = 0; row < p.rows; ++row) {
      p.x[row * p.k] = std::ldexp(1.0f, -63);
      p.x[row * p.k + 2] = -std::ldexp(1.0f, exponent + 76);
    }
    for (size_t column = 0; column < p.n; ++column) {
      p.w[column * p.k] = std::ldexp(1.0f, -63);
      p.w[column * p.k + 2] = std::ldexp(1.0f, -76);
    }
    p.pack();
    // 2^-126 - 2^exponent, rounded to 24 bits as if there were no least exponent.
    const double exact = std::ldexp(1.0, -126) - std::ldexp(1.0, exponent);
    const auto rounded = std::ldexp(static_cast<double>(static_cast<float>(std::ldexp(exact, 100))), -100);
    const float expected = rounded < std::ldexp(1.0, -126) ? 0.0f : static_cast<float>(rounded);
    for (const CpuKernels* kernels : kernel_sets()) {
      CAPTURE(exponent);
      for (const float y : p.run(*kernels)) REQUIRE_MESSAGE(y == expected, kernels->isa);
    }
  }
}
#endif

TEST_CASE("bf16 gemm: a NaN or an infinity shows in its row or column and nowhere else") {
  Product p(35, 40, 70);
  p.x[2 * p.k + 69] = std::numeric_limits<float>::quiet_NaN();
  p.x[20 * p.k] = -std::numeric_limits<float>::infinity();
  p.w[7 * p.k + 68] = std::numeric_limits<float>::infinity();
  p.pack();
  for (const CpuKernels* kernels : kernel_sets()) {
    const std::vector<float> y = p.run(*kernels);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t row = i / p.n, column = i % p.n;
      CHECK_MESSAGE(std::isfinite(y[i]) == (row != 2 && row != 20 && column != 7), kernels->isa);
    }
  }
}

TEST_CASE("bf16 gemm: a bias is added to the product, before the activation and before what y holds") {
  for (const size_t rows : {1, 13, 33}) {
    for (const size_t n : {33, 64}) {
      const Product plain(rows, n, 96);
      Product with_bias = plain;
      with_bias.bias = random_floats(n, 5);
      const std::vector<float> before = random_floats(rows * n, 3);
      for (const CpuKernels* kernels : kernel_sets()) {
        const std::vector<float> product = plain.run(*kernels), stored = with_bias.run(*kernels);
        const std::vector<float> relu = with_bias.run(*kernels, Epilogue::kRelu);
        const std::vector<float> added = with_bias.run(*kernels, Epilogue::kAdd);
        for (size_t i = 0; i < product.size(); ++i) {
          const float sum = product[i] + with_bias.bias[i % n];
          REQUIRE(stored[i] == sum);
          REQUIRE(relu[i] == std::max(sum, 0.0f));
          REQUIRE(added[i] == before[i] + sum);
        }
      }
    }
  }
}

TEST_CASE("bf16 gemm: a row's bits do not depend on how many rows there are, nor on the threads") {
  ThreadPool one(1), three(3);
  const Product p(300, 200, 100);
  std::vector<std::byte> memory(rounded_bytes(kRoundedRows, p.k, kBf16Format));
  const RoundedScratch scratch{ActivationFormat::kBf16, memory};
  std::vector<float> all(p.rows * p.n), single(p.n);
  linear(three, p.x.data(), p.k, p.rows, p.matrix(), all.data(), p.n, Epilogue::kStore, scratch);
  for (size_t i = 0; i < p.rows; ++i) {
    linear(one, &p.x[i * p.k], p.k, 1, p.matrix(), single.data(), p.n, Epilogue::kStore, scratch);
    REQUIRE(std::memcmp(single.data(), &all[i * p.n], p.n * 4) == 0);
  }
}

}  // namespace
}  // namespace sida
