// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx512.h"
#include "ops/cpu/rounded_kernels_impl.h"
#include "ops/cpu/amx_bf16_gemm_impl.h"
#include "ops/cpu/amx_int8_gemm_impl.h"
// clang-format on

namespace sida {
namespace {

void gemm_rounded_tiles(const GemmTask& t, const RoundedRows& x) {
  has_bf16(t.format.type) ? gemm_bf16_tiles(t, x) : gemm_int8_tiles(t, x);
}

}  // namespace

extern const RoundedKernels kAvx512AmxRounded;
const RoundedKernels kAvx512AmxRounded{round_rows, gemm_rounded_tiles};
}  // namespace sida
