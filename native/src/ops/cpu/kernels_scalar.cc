// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_scalar.h"
#include "ops/cpu/float_kernels_impl.h"
#include "ops/cpu/rounded_kernels_impl.h"
// clang-format on

namespace sida {
extern const FloatKernels kScalarFloat;
const FloatKernels kScalarFloat = kFloatKernels;
extern const RoundedKernels kScalarRounded;
const RoundedKernels kScalarRounded = kRoundedKernels;
}  // namespace sida
