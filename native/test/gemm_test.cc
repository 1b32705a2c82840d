// GEMM of every format: each instruction set against the scalar reference, bit for bit, and that against
// float64.
#include <cmath>
#include <cstring>
#include <vector>

#include "doctest/doctest.h"
#include "kernel_sets.h"
#include "ops/linear.h"
#include "ops/panels.h"

namespace sida {
namespace {

constexpr WeightFormat kFormats[] = {kF32Format,
                                     kBf16Format,
                                     {WeightType::kInt8, 0},
                                     {WeightType::kInt4, 32},
                                     {WeightType::kInt4, 64},
                                     {WeightType::kInt4, 128}};

TEST_CASE("gemm: agrees with float64 and across instruction sets on all tail sizes") {
  for (const WeightFormat format : kFormats) {
    for (const size_t rows : {1, 2, 7, 8, 9, 19}) {
      for (const size_t n : {1, 31, 32, 33, 96}) {
        for (const size_t k : {1, 2, 7, 64, 100, 129}) {
          for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kRelu, Epilogue::kAdd}) {
            const auto x = random_floats(rows * k, 1);
            const auto w = random_floats(n * k, 2);
            const auto before = random_floats(rows * n, 3);
            std::vector<std::byte> panels(panel_matrix_bytes(n, k, format) + 8192);
            pack_panels(w.data(), n, k, format, panels.data());
            const PanelMatrix matrix{panels.data(), format, k, n};
            std::vector<float> row(k), reference;
            for (const CpuKernels* kernels : kernel_sets()) {
              std::vector<float> y = before;
              kernels->gemm({x.data(), k, rows, panels.data(), format, k, n, 0, matrix.panels(), y.data(), n,
                             epilogue});
              if (reference.empty()) {
                reference = y;
                for (size_t j = 0; j < n; ++j) {
                  read_panel_row(matrix, j, row.data());
                  if (format == kF32Format) REQUIRE(std::memcmp(row.data(), &w[j * k], k * 4) == 0);
                  for (size_t i = 0; i < rows; ++i) {
                    double sum = 0, size = 0;
                    for (size_t l = 0; l < k; ++l) {
                      sum += static_cast<double>(x[i * k + l]) * row[l];
                      size += std::abs(static_cast<double>(x[i * k + l]) * row[l]);
                    }
                    double expected = epilogue == Epilogue::kRelu ? std::max(sum, 0.0) : sum;
                    if (epilogue == Epilogue::kAdd) expected += before[i * n + j];
                    REQUIRE(std::abs(y[i * n + j] - expected) <= 1e-6 * (size + 1));
                  }
                }
              }
              REQUIRE_MESSAGE(std::memcmp(y.data(), reference.data(), y.size() * 4) == 0, kernels->isa);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("gemm: a row's result does not depend on how many rows there are, nor on the threads") {
  const size_t rows = 37, k = 100, n = 200;
  const auto x = random_floats(rows * k, 4);
  const auto w = random_floats(n * k, 5);
  ThreadPool one(1), three(3);
  for (const WeightFormat format : kFormats) {
    std::vector<std::byte> panels(panel_matrix_bytes(n, k, format) + 8192);
    pack_panels(w.data(), n, k, format, panels.data());
    const PanelMatrix matrix{panels.data(), format, k, n};
    std::vector<float> all(rows * n), single(n);
    linear(three, x.data(), k, rows, matrix, all.data(), n, Epilogue::kStore);
    for (size_t i = 0; i < rows; ++i) {
      linear(one, x.data() + i * k, k, 1, matrix, single.data(), n, Epilogue::kStore);
      CHECK(std::memcmp(single.data(), &all[i * n], n * 4) == 0);
    }
  }
}

}  // namespace
}  // namespace sida
