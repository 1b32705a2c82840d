// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx512.h"
#include "ops/cpu/kernels_impl.h"
#include "ops/cpu/amx_gemm_impl.h"
// clang-format on

namespace sida {
namespace {

constexpr CpuKernels make_tile_kernels() {
  CpuKernels kernels = make_kernels("avx512amx");
  kernels.gemm_int8 = gemm_int8_tiles;
  return kernels;
}

}  // namespace

extern const CpuKernels kAvx512AmxKernels;
const CpuKernels kAvx512AmxKernels = make_tile_kernels();
}  // namespace sida
