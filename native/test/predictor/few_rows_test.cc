#include <cstring>
#include <vector>

#include "doctest/doctest.h"
#include "ops/cpu/kernels.h"
#include "predictor/few_rows.h"
#include "predictor/matrix_product.h"
#include "support/predictor_reference.h"

namespace sida {
namespace {

using namespace sida::testing;

TEST_CASE("few rows: the bits of the panel product, in every instruction set") {
  for (const char* isa : {"avx2", "avx512"}) {
    const FewRowsProduct* few = few_rows_named(isa);
    if (few == nullptr || cpu_kernels_named(isa) == nullptr) continue;
    const size_t n = few->panels * kPanelColumns;
    for (const size_t k : {1, 3, 64, 129}) {
      const std::vector<float> weights = floats(random_doubles(n * k, 1, 1));
      const std::vector<float> x = floats(random_doubles(kFewRows * (k + 2), 1, 2));
      AlignedFloats room;
      const PanelMatrix w = pack_transposed(weights.data(), n, k, &room);
      for (size_t rows = 1; rows <= kFewRows; ++rows) {
        std::vector<float> expected(rows * n), found(rows * n);
        cpu_kernels().gemm({x.data(), k + 2, rows, w.data, kF32Format, k, n, 0, w.panels(), expected.data(),
                            n, Epilogue::kStore});
        few->run(x.data(), k + 2, rows, room.data(), k, found.data());
        CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("matrix product: zero rows read nothing") {
  const std::vector<float> weights(64, 1.0f);
  AlignedFloats room;
  multiply(nullptr, 1, 0, pack_transposed(weights.data(), 64, 1, &room), nullptr, 64, Epilogue::kStore);
}

TEST_CASE("matrix product: a row's bits do not depend on the rows beside it") {
  const size_t k = 40;
  for (const size_t n : {1, 31, 64, 65, 160, 200}) {
    const std::vector<float> weights = floats(random_doubles(n * k, 1, 1));
    const std::vector<float> x = floats(random_doubles(9 * k, 1, 2));
    AlignedFloats room;
    const PanelMatrix w = pack_transposed(weights.data(), n, k, &room);
    for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kRelu}) {
      std::vector<float> all(9 * n, 0.5f);
      multiply(x.data(), k, 9, w, all.data(), n, epilogue);
      for (size_t rows = 1; rows <= 4; ++rows) {
        std::vector<float> some(rows * n, 0.5f);
        multiply(x.data(), k, rows, w, some.data(), n, epilogue);
        CHECK(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace sida
