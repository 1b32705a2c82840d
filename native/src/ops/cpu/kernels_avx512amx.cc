// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx512.h"
#include "ops/cpu/kernels_impl.h"
#include "ops/cpu/amx_bf16_gemm_impl.h"
#include "ops/cpu/amx_int8_gemm_impl.h"
// clang-format on

namespace sida {
namespace {

void gemm_rounded_tiles(const GemmTask& t, const RoundedRows& x) {
  t.format.type == WeightType::kBf16 ? gemm_bf16_tiles(t, x) : gemm_int8_tiles(t, x);
}

constexpr CpuKernels make_tile_kernels() {
  CpuKernels kernels = make_kernels("avx512amx");
  kernels.gemm_rounded = gemm_rounded_tiles;
  return kernels;
}

}  // namespace

extern const CpuKernels kAvx512AmxKernels;
const CpuKernels kAvx512AmxKernels = make_tile_kernels();
}  // namespace sida
