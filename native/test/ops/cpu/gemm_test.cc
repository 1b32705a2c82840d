// GEMM of every format: each instruction set against the scalar reference, bit for bit, and that against
// float64.
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "doctest/doctest.h"
#include "ops/cpu/linear.h"
#include "ops/panels.h"
#include "support/kernel_sets.h"
#include "support/random_floats.h"
#include "support/weight_formats.h"

namespace sida {
namespace {

TEST_CASE("gemm: agrees with float64 and across instruction sets on all tail sizes") {
  for (const WeightFormat format : all_formats()) {
    for (const size_t rows : {1, 2, 7, 8, 9, 19}) {
      for (const size_t n : {1, 31, 32, 33, 96}) {
        for (const size_t any : {1, 2, 7, 64, 100, 129, 300}) {
          const size_t k = inputs_for(format, any);
          if (k != any && any != 64 && any != 300) continue;
          for (const Epilogue epilogue :
               {Epilogue::kStore, Epilogue::kRelu, Epilogue::kAdd, Epilogue::kSwiglu}) {
            const auto x = random_floats(rows * k, 1);
            const auto w = random_floats(n * k, 2);
            const auto before = random_floats(rows * n, 3);
            const std::vector<std::byte> panels = random_panels(format, n, k, 2);
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
                    double scale = 1;
                    if (epilogue == Epilogue::kAdd) expected += before[i * n + j];
                    if (epilogue == Epilogue::kSwiglu) {
                      scale = before[i * n + j] / (1 + std::exp(-static_cast<double>(before[i * n + j])));
                      expected *= scale;
                    }
                    REQUIRE(std::abs(y[i * n + j] - expected) <= 1e-6 * std::abs(scale) * (size + 1));
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
  const size_t rows = 37, n = 200;
  ThreadPool one(1), three(3);
  for (const WeightFormat format : all_formats()) {
    const size_t k = inputs_for(format, 100);
    const auto x = random_floats(rows * k, 4);
    const std::vector<std::byte> panels = random_panels(format, n, k, 5);
    const PanelMatrix matrix{panels.data(), format, k, n};
    std::vector<float> all(rows * n), single(n);
    linear(three, x.data(), k, rows, matrix, all.data(), n, Epilogue::kStore);
    for (size_t i = 0; i < rows; ++i) {
      linear(one, x.data() + i * k, k, 1, matrix, single.data(), n, Epilogue::kStore);
      CHECK(std::memcmp(single.data(), &all[i * n], n * 4) == 0);
    }
  }
}

/// Bytes that end at the beginning of protected memory.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes), pages_((bytes + 4095) / 4096 * 4096) {
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, pages_ + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(mprotect(memory_ + pages_, 4096, PROT_NONE) == 0);
  }
  ~Guarded() { munmap(memory_, pages_ + 4096); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::byte* data() const { return memory_ + pages_ - bytes_; }

 private:
  size_t bytes_, pages_;
  std::byte* memory_;
};

TEST_CASE("gemm: reads and writes nothing beyond the last panel, row and result") {
  for (const WeightFormat format : all_formats()) {
    for (const size_t rows : {1, 4, 13, 33}) {
      for (const size_t n : {1, 17, 32, 40}) {
        for (const size_t any : {1, 5, 33, 100}) {
          const size_t k = inputs_for(format, any);
          const auto values = random_floats(rows * k, 1);
          const std::vector<std::byte> w = random_panels(format, n, k, 2);
          Guarded panels(w.size()), x(rows * k * 4), y(rows * n * 4);
          std::memcpy(panels.data(), w.data(), w.size());
          std::memcpy(x.data(), values.data(), rows * k * 4);
          auto* rows_in = reinterpret_cast<float*>(x.data());
          auto* out = reinterpret_cast<float*>(y.data());
          const bool rounded = format != kF32Format;
          Guarded codes(rounded_bytes(rows, k, format));
          for (const CpuKernels* kernels : kernel_sets()) {
            const size_t count = (n + kPanelColumns - 1) / kPanelColumns;
            const GemmTask task{rows_in, k, rows,  panels.data(), format, k,
                                n,       0, count, out,           n,      Epilogue::kStore};
            kernels->gemm(task);
            if (!rounded) continue;
            const RoundedRows in = rounded_rows({codes.data(), rounded_bytes(rows, k, format)}, rows, k, format);
            kernels->round_rows({rows_in, k, rows, k, format}, in);
            kernels->gemm_rounded(task, in);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sida
