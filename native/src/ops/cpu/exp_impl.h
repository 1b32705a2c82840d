// exp of many doubles, for float_kernels_impl.h.

#include "core/exp_steps.h"
#include "core/portable_math.h"

namespace sida {
namespace {

// From here on 2^k is a normal number.
constexpr double kSmallestNormalExp = -707;

// portable_exp for kSmallestNormalExp <= x <= -kTinyExp; any value elsewhere. Sign bits instead of
// comparisons, which would keep the compiler from taking several x at a time.
inline double exp_negative(double x) {
  // A sum with this is rounded to a whole number, which is in the last bits.
  constexpr double shift = 0x1.8p52;
  const double exponent = kInverseLn2 * x - 0.5;
  const double rounded = exponent + shift;
  // Adds 1 where the sum was rounded away from 0, because fdlibm truncates.
  const uint64_t truncated = bits_of(rounded) + (bits_of((rounded - shift) - exponent) >> 63);
  const uint64_t near_zero = 0 - (bits_of(-kHalfLn2 - x) >> 63);
  const uint64_t k_bits = (truncated & ~near_zero) | (bits_of(shift) & near_zero);
  const double k = double_of(k_bits) - shift;
  return exp_of_rest(x - k * kLn2High, k * kLn2Low) * double_of((k_bits + 1023) << 52);
}

void exp_nonpositive(const double* x, size_t n, double* out) {
  constexpr size_t kBlock = 64;
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t count = n - start < kBlock ? n - start : kBlock;
    // On the stack, where the compiler knows that it does not overlap x.
    double block[kBlock];
    uint64_t outside = 0;  // The sign bit is set once an x is outside the range of exp_negative().
    for (size_t i = 0; i < count; ++i) {
      const double value = x[start + i];
      block[i] = exp_negative(value);
      outside |= bits_of(value - kSmallestNormalExp) | bits_of(-kTinyExp - value);
    }
    if (outside >> 63) {
      for (size_t i = 0; i < count; ++i) {
        const double value = x[start + i];
        if (value < kSmallestNormalExp || value > -kTinyExp) block[i] = portable_exp(value);
      }
    }
    std::memcpy(out + start, block, count * sizeof *out);
  }
}

}  // namespace
}  // namespace sida
