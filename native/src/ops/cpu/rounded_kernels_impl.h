// The products of rounded activations, which are all that VNNI and AMX change. See
// float_kernels_impl.h.

#include "ops/cpu/bf16_gemm_impl.h"
#include "ops/cpu/int8_gemm_impl.h"
#include "ops/cpu/kernels.h"

namespace sida {
namespace {

void gemm_rounded(const GemmTask& t, const RoundedRows& x) {
  has_bf16(t.format.type) ? gemm_bf16(t, x) : gemm_int8(t, x);
}

constexpr RoundedKernels kRoundedKernels{round_rows, gemm_rounded};

}  // namespace
}  // namespace sida
