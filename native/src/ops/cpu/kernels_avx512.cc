// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx512.h"
#include "ops/cpu/float_kernels_impl.h"
#include "ops/cpu/rounded_kernels_impl.h"
// clang-format on

namespace sida {
extern const FloatKernels kAvx512Float;
const FloatKernels kAvx512Float = kFloatKernels;
extern const RoundedKernels kAvx512Rounded;
const RoundedKernels kAvx512Rounded = kRoundedKernels;
}  // namespace sida
