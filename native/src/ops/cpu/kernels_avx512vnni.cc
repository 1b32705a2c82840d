// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx512.h"
#include "ops/cpu/rounded_kernels_impl.h"
// clang-format on

namespace sida {
extern const RoundedKernels kAvx512VnniRounded;
const RoundedKernels kAvx512VnniRounded = kRoundedKernels;
}  // namespace sida
