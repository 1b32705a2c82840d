#include "predictor/few_rows.h"

#include <cstring>

#include "ops/cpu/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sida {

#if defined(__x86_64__)
namespace {

constexpr size_t kPanels = 2;

// kRows rows with kPanels panels of kPanelColumns / `width` vectors each.
#define SIDA_FEW_ROWS(name, isa, vector, width, zero, broadcast, load, fma, store)                                   \
  template <size_t kRows>                                                                                            \
  [[gnu::target(isa)]] void tile_##name(const float* x, size_t x_stride, const float* panel, size_t k, float* out) { \
    constexpr size_t kVectors = kPanelColumns / width;                                                               \
    vector sums[kRows][kPanels][kVectors];                                                                           \
    for (size_t r = 0; r < kRows; ++r) {                                                                             \
      for (size_t p = 0; p < kPanels; ++p) {                                                                         \
        for (size_t v = 0; v < kVectors; ++v) sums[r][p][v] = zero();                                                \
      }                                                                                                              \
    }                                                                                                                \
    for (size_t i = 0; i < k; ++i, panel += kPanelColumns) {                                                         \
      for (size_t p = 0; p < kPanels; ++p) {                                                                         \
        for (size_t v = 0; v < kVectors; ++v) {                                                                      \
          const vector w = load(panel + p * k * kPanelColumns + v * width);                                          \
          for (size_t r = 0; r < kRows; ++r) {                                                                       \
            sums[r][p][v] = fma(broadcast(x[r * x_stride + i]), w, sums[r][p][v]);                                   \
          }                                                                                                          \
        }                                                                                                            \
      }                                                                                                              \
    }                                                                                                                \
    for (size_t r = 0; r < kRows; ++r) {                                                                             \
      for (size_t p = 0; p < kPanels; ++p) {                                                                         \
        for (size_t v = 0; v < kVectors; ++v, out += width) store(out, sums[r][p][v]);                               \
      }                                                                                                              \
    }                                                                                                                \
  }                                                                                                                  \
  void run_##name(const float* x, size_t x_stride, size_t rows, const float* panel, size_t k, float* out) {          \
    if (rows == 1) return tile_##name<1>(x, x_stride, panel, k, out);                                                \
    if (rows == 2) return tile_##name<2>(x, x_stride, panel, k, out);                                                \
    tile_##name<3>(x, x_stride, panel, k, out);                                                                      \
  }                                                                                                                  \
  constexpr FewRowsProduct kFewRows_##name = {kPanels, run_##name};

SIDA_FEW_ROWS(avx2, "avx2,fma", __m256, 8, _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_fmadd_ps,
              _mm256_storeu_ps)
SIDA_FEW_ROWS(avx512, "avx512f", __m512, 16, _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_fmadd_ps,
              _mm512_storeu_ps)
#undef SIDA_FEW_ROWS

}  // namespace
#endif

const FewRowsProduct* few_rows_named(const char* isa) {
#if defined(__x86_64__)
  if (std::strncmp(isa, "avx512", 6) == 0) return &kFewRows_avx512;
  if (std::strcmp(isa, "avx2") == 0) return &kFewRows_avx2;
#endif
  (void)isa;
  return nullptr;
}

}  // namespace sida
