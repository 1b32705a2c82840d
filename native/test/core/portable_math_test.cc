#include "core/portable_math.h"

#include "support/kernel_sets.h"
#include "support/math_bits.h"

namespace {

// NaNs are equal whatever their bits: no two machines agree on those.
bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

TEST_CASE("exp and log have the bits of Math.exp and Math.log") {
  for (const bool log : kBoth) {
    for (const auto& line : math_bits(log ? "log" : "exp")) {
      const double x = double_of_hex(line[0]);
      CASE(log, x);
      CHECK(same_bits(log ? portable_log(x) : portable_exp(x), double_of_hex(line[1])));
    }
  }
  CHECK(std::isnan(portable_log(-1)));
  CHECK(std::isnan(portable_log(-INFINITY)));
}

TEST_CASE("every kernel set's exp of many has the bits of exp") {
  std::mt19937_64 random(1);
  std::vector<double> x = {0, -0.0, -5e-324, -INFINITY, -0x1p-28, -707};
  for (double reach : {800.0, 40.0, 2.0, 0.35, 1e-7}) {
    std::uniform_real_distribution<double> numbers(-reach, 0);
    for (int i = 0; i < 40000; ++i) x.push_back(numbers(random));
  }
  for (const auto& line : math_bits("exp")) {
    if (const double value = double_of_hex(line[0]); value <= 0) x.push_back(value);
  }
  for (const CpuKernels* kernels : kernel_sets()) {
    CASE(kernels->isa);
    std::vector<double> out = x;
    kernels->exp_nonpositive(out.data(), out.size(), out.data());
    size_t different = 0;
    for (size_t i = 0; i < x.size(); ++i) different += same_bits(out[i], portable_exp(x[i])) ? 0 : 1;
    CHECK(different == 0);
  }
}

}  // namespace
