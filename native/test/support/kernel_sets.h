#pragma once

#include <vector>

#include "doctest/doctest.h"
#include "ops/cpu/kernels.h"

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

}  // namespace sida
