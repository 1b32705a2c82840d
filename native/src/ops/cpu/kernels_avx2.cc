// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx2.h"
#include "ops/cpu/float_kernels_impl.h"
#include "ops/cpu/rounded_kernels_impl.h"
// clang-format on

namespace sida {
extern const FloatKernels kAvx2Float;
const FloatKernels kAvx2Float = kFloatKernels;
extern const RoundedKernels kAvx2Rounded;
const RoundedKernels kAvx2Rounded = kRoundedKernels;
}  // namespace sida
