#pragma once

#include "ops/cpu/kernels.h"
#include "support/test.h"

namespace sida {

/// The sets that this machine has, the scalar reference first.
inline const std::vector<const CpuKernels*>& kernel_sets() {
  static const std::vector<const CpuKernels*> sets = [] {
    std::vector<const CpuKernels*> found;
    for (const char* isa : {"scalar", "avx2", "avx512", "avx512vnni", "avx512amx"}) {
      if (const CpuKernels* kernels = cpu_kernels_named(isa)) {
        found.push_back(kernels);
      } else {
        MESSAGE("this machine has no " << isa);
      }
    }
    return found;
  }();
  return sets;
}

/// What `run` gives, which all sets must agree on bit for bit; the bits of a NaN may differ.
inline std::vector<float> of_all_sets(const std::function<std::vector<float>(const CpuKernels&)>& run) {
  std::vector<float> reference;
  for (const CpuKernels* kernels : kernel_sets()) {
    std::vector<float> y = run(*kernels);
    for (float& value : y) value = std::isnan(value) ? NAN : value;
    if (reference.empty()) reference = y;
    REQUIRE_MESSAGE(testing::same_bits(y, reference), kernels->isa);
  }
  return reference;
}

}  // namespace sida
