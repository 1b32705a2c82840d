// GEMM with 8-bit activations: each instruction set against the scalar reference, bit for bit, and that
// against float64.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "doctest/doctest.h"
#include "ops/cpu/linear.h"
#include "ops/panels.h"
#include "ops/weight_blocks.h"
#include "support/kernel_sets.h"
#include "support/random_floats.h"
#include "support/weight_formats.h"

namespace sida {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Those whose panels `of_floats` can be packed from floats, or all that products in 8 bits have.
std::vector<WeightFormat> formats(bool of_floats) {
  std::vector<WeightFormat> all = all_formats();
  std::erase_if(all, [&](WeightFormat format) {
    return !quantized(format) || (of_floats && in_super_blocks(format.type));
  });
  return all;
}

struct Product {
  size_t rows, n, k;
  WeightFormat format;
  std::vector<float> x, w;
  std::vector<std::byte> panels;
  std::vector<float> bias;  ///< empty: none

  Product(size_t rows_, size_t n_, size_t k_, WeightFormat format_)
      : rows(rows_),
        n(n_),
        k(inputs_for(format_, k_)),
        format(format_),
        x(random_floats(rows * k, 1)),
        w(random_floats(n * k, 2)) {}

  void pack() {
    panels.resize(panel_matrix_bytes(n, k, format));
    pack_panels(w.data(), n, k, format, panels.data());
  }
  void pack_any() { panels = random_panels(format, n, k, 2); }
  std::vector<float> run(const CpuKernels& kernels, Epilogue epilogue,
                         const std::vector<float>& before) const {
    std::vector<std::byte> memory(rounded_bytes(rows, k, format));
    const RoundedRows codes = rounded_rows(memory, rows, k, format);
    kernels.round_rows({x.data(), k, rows, k, format}, codes);
    std::vector<float> y = before;
    const size_t count = (n + kPanelColumns - 1) / kPanelColumns;
    kernels.gemm_rounded({nullptr, 0, rows, panels.data(), format, k, n, 0, count, y.data(), n, epilogue,
                          bias.empty() ? nullptr : bias.data()},
                         codes);
    return y;
  }
  /// The result of all instruction sets, which must agree.
  std::vector<float> run(Epilogue epilogue = Epilogue::kStore) const {
    const std::vector<float> before = random_floats(rows * n, 3);
    std::vector<float> reference;
    for (const CpuKernels* kernels : kernel_sets()) {
      const std::vector<float> y = run(*kernels, epilogue, before);
      if (reference.empty()) reference = y;
      for (size_t i = 0; i < y.size(); ++i) {
        // The bits of a NaN may differ.
        if (std::isnan(reference[i])) REQUIRE_MESSAGE(std::isnan(y[i]), kernels->isa);
        if (!std::isnan(reference[i]))
          REQUIRE_MESSAGE(std::memcmp(&y[i], &reference[i], 4) == 0, kernels->isa);
      }
    }
    return reference;
  }
};

TEST_CASE(
    "int8 gemm: agrees with float64 on the rounded rows, and across instruction sets, on all tail sizes") {
  const std::vector<size_t> tails{1, 3, 31, 33, 63, 65, 100, 767}, blocks{256, 768};
  for (const WeightFormat format : formats(false)) {
    for (const size_t rows : {1, 2, 3, 5, 6, 7, 8, 12, 13, 16, 17, 32, 41}) {
      for (const size_t n : {1, 31, 33, 64}) {
        for (const size_t k : in_super_blocks(format.type) ? blocks : tails) {
          Product p(rows, n, k, format);
          p.pack_any();
          for (const Epilogue epilogue :
               {Epilogue::kStore, Epilogue::kRelu, Epilogue::kAdd, Epilogue::kSwiglu}) {
            const std::vector<float> y = p.run(epilogue), before = random_floats(rows * n, 3);
            std::vector<float> weight(k);
            for (size_t j = 0; j < n; ++j) {
              read_panel_row({p.panels.data(), format, k, n}, j, weight.data());
              for (size_t i = 0; i < rows; ++i) {
                const float* x = &p.x[i * k];
                float top = 0;
                for (size_t l = 0; l < k; ++l) top = std::max(top, std::abs(x[l]));
                double sum = 0, size = 0, step = 0;
                for (size_t l = 0; l < k; ++l) {
                  const double code = std::nearbyint(x[l] * (127.0f / top));
                  sum += code * weight[l] * top / 127;
                  size += std::abs(x[l] * weight[l]);
                  // What rounding the row to 8 bits may change at most.
                  step += std::abs(weight[l]) * top / 127 * 0.5001;
                }
                double exact = 0;
                for (size_t l = 0; l < k; ++l) exact += static_cast<double>(x[l]) * weight[l];
                REQUIRE(std::abs(sum - exact) <= step + 1e-6);
                if (epilogue == Epilogue::kRelu) sum = std::max(sum, 0.0);
                if (epilogue == Epilogue::kAdd) sum += before[i * n + j];
                double scale = 1;
                if (epilogue == Epilogue::kSwiglu) {
                  scale = before[i * n + j] / (1 + std::exp(-static_cast<double>(before[i * n + j])));
                }
                REQUIRE(std::abs(y[i * n + j] - scale * sum) <= 2e-6 * std::abs(scale) * (size + 1));
              }
            }
          }
        }
      }
    }
  }
}

/// A weight whose code is the largest and whose scale has no rounding.
float largest_weight(WeightType type) {
  if (type == WeightType::kMxfp4) return 6.0f;
  return type == WeightType::kInt8 || type == WeightType::kQ8_0 ? 127.0f / 16 : 7.0f;
}

TEST_CASE("int8 gemm: the largest codes everywhere do not saturate") {
  for (const WeightFormat format : formats(true)) {
    const float weight = largest_weight(format.type);
    for (const float sign : {1.0f, -1.0f}) {
      Product p(33, 33, 4096, format);
      for (float& value : p.x) value = 2.0f;
      for (float& value : p.w) value = weight * sign;
      p.pack();
      for (const float value : p.run()) CHECK(value == doctest::Approx(sign * 2 * weight * 4096).epsilon(1e-6));
    }
  }
}

TEST_CASE("int8 gemm: the largest and the smallest codes of types in blocks of 256 inputs do not saturate") {
  for (const WeightFormat format : {kQ4_KFormat, kQ6_KFormat}) {
    const bool q4 = format == kQ4_KFormat;
    const Dtype dtype = q4 ? Dtype::kQ4_K : Dtype::kQ6_K;
    const size_t block_bytes = dtype_block(dtype).bytes;
    // Behind the scales, or in front of them.
    const size_t first = q4 ? 16 : 0, end = q4 ? block_bytes : 192;
    for (const std::byte codes : {std::byte{0x00}, std::byte{0xff}}) {
      for (const size_t rows : {3, 13, 33}) {
        for (const float sign : {1.0f, -1.0f}) {
          Product p(rows, 33, 512, format);
          std::vector<std::byte> blocks = random_blocks(dtype, p.n, p.k, 2);
          for (size_t block = 0; block < blocks.size(); block += block_bytes) {
            for (size_t at = first; at < end; ++at) blocks[block + at] = codes;
          }
          p.panels.resize(panel_matrix_bytes(p.n, p.k, p.format));
          pack_blocks(dtype, blocks.data(), p.n, p.k, p.panels.data());
          for (float& value : p.x) value = 2 * sign;
          const std::vector<float> y = p.run();
          std::vector<float> weight(p.k);
          for (size_t j = 0; j < p.n; ++j) {
            read_panel_row({p.panels.data(), p.format, p.k, p.n}, j, weight.data());
            double sum = 0, size = 0;
            for (const float each : weight) sum += 2.0 * sign * each, size += 2 * std::abs(each);
            for (size_t i = 0; i < rows; ++i) CHECK(std::abs(y[i * p.n + j] - sum) <= 2e-6 * (size + 1));
          }
        }
      }
    }
  }
}

TEST_CASE("int8 gemm: codes of -128, which files may hold") {
  for (const size_t rows : {3, 13, 33}) {
    for (const float sign : {1.0f, -1.0f}) {
      Product p(rows, 33, 96, kQ8_0Format);
      std::vector<std::byte> blocks = random_blocks(Dtype::kQ8_0, p.n, p.k, 2);
      for (size_t block = 0; block < blocks.size(); block += 34) {
        for (size_t code = 2; code < 34; ++code) blocks[block + code] = std::byte{0x80};
      }
      p.panels.resize(panel_matrix_bytes(p.n, p.k, p.format));
      pack_blocks(Dtype::kQ8_0, blocks.data(), p.n, p.k, p.panels.data());
      for (float& value : p.x) value = 2 * sign;
      const std::vector<float> y = p.run();
      std::vector<float> weight(p.k);
      for (size_t j = 0; j < p.n; ++j) {
        read_panel_row({p.panels.data(), p.format, p.k, p.n}, j, weight.data());
        double sum = 0;
        for (const float each : weight) sum += 2.0 * sign * each;
        for (size_t i = 0; i < rows; ++i) CHECK(y[i * p.n + j] == doctest::Approx(sum).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("int8 gemm: a bias is added to the product, before the activation and before what y holds") {
  for (const WeightFormat format : formats(false)) {
    for (const size_t rows : {1, 13, 33}) {
      for (const size_t n : {33, 64}) {
        Product p(rows, n, 256, format);
        p.pack_any();
        const std::vector<float> product = p.run(), before = random_floats(rows * n, 3);
        p.bias = random_floats(n, 5);
        const std::vector<float> stored = p.run(), relu = p.run(Epilogue::kRelu), added = p.run(Epilogue::kAdd);
        for (size_t i = 0; i < product.size(); ++i) {
          const float sum = product[i] + p.bias[i % n];
          REQUIRE(stored[i] == sum);
          REQUIRE(relu[i] == std::max(sum, 0.0f));
          REQUIRE(added[i] == before[i] + sum);
        }
        // Gated products are compared among the sets alone.
        p.run(Epilogue::kSwiglu);
        p.run(Epilogue::kClampedSwiglu);
      }
    }
  }
}

TEST_CASE(
    "int8 gemm: a row of zeros gives zeros, a row with NaN or infinity gives NaN, neighbours are unaffected") {
  for (const WeightFormat format : formats(false)) {
    Product p(29, 40, 70, format);
    p.pack_any();
    const std::vector<float> sound = p.run();
    for (size_t l = 0; l < p.k; ++l) p.x[l] = p.x[p.k + l] = 0;
    p.x[p.k + 3] = 1e-39f;
    p.x[2 * p.k + 69] = kNan;
    p.x[3 * p.k] = -kInf;
    const std::vector<float> y = p.run();
    for (size_t j = 0; j < p.n; ++j) {
      CHECK(y[j] == 0);
      CHECK(y[p.n + j] == 0);
      CHECK(std::isnan(y[2 * p.n + j]));
      CHECK(std::isnan(y[3 * p.n + j]));
      CHECK(y[4 * p.n + j] == sound[4 * p.n + j]);
    }
  }
}

TEST_CASE("int8 gemm: a channel with a NaN weight gives NaN, zero columns give zero") {
  for (const WeightFormat format : formats(true)) {
    Product p(26, 40, 70, format);
    p.w[7 * p.k + 69] = kInf;
    for (size_t l = 0; l < p.k; ++l) p.w[8 * p.k + l] = 0;
    p.pack();
    const std::vector<float> y = p.run();
    for (size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i % p.n == 7));
    CHECK(y[8] == 0);
  }
}

TEST_CASE("int8 gemm: a row's bits do not depend on how many rows there are, nor on the threads") {
  ThreadPool one(1), three(3);
  for (const WeightFormat format : formats(false)) {
    Product p(300, 200, 100, format);
    p.pack_any();
    const PanelMatrix matrix{p.panels.data(), format, p.k, p.n};
    std::vector<std::byte> memory(rounded_bytes(kRoundedRows, p.k, format));
    const RoundedScratch scratch{ActivationFormat::kInt8, memory};
    std::vector<float> all(p.rows * p.n), single(p.n);
    linear(three, p.x.data(), p.k, p.rows, matrix, all.data(), p.n, Epilogue::kStore, scratch);
    for (size_t i = 0; i < p.rows; ++i) {
      linear(one, &p.x[i * p.k], p.k, 1, matrix, single.data(), p.n, Epilogue::kStore, scratch);
      REQUIRE(std::memcmp(single.data(), &all[i * p.n], p.n * 4) == 0);
    }
  }
}

}  // namespace
}  // namespace sida
