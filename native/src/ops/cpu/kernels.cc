#include "ops/cpu/kernels.h"

#include <cstdlib>
#include <cstring>

#include "core/cpu_features.h"

namespace sida {

extern const CpuKernels kScalarKernels;
#if defined(__x86_64__)
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx512Kernels;
extern const CpuKernels kAvx512VnniKernels;
extern const CpuKernels kAvx512AmxKernels;
#endif

const CpuKernels* cpu_kernels_named(const char* isa) {
  if (std::strcmp(isa, "scalar") == 0) return &kScalarKernels;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && std::strcmp(isa, "avx2") == 0) return &kAvx2Kernels;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && std::strcmp(isa, "avx512") == 0) return &kAvx512Kernels;
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (vnni && std::strcmp(isa, "avx512vnni") == 0) return &kAvx512VnniKernels;
  if (vnni && std::strcmp(isa, "avx512amx") == 0 && may_use_tiles()) return &kAvx512AmxKernels;
#endif
  return nullptr;
}

const CpuKernels& cpu_kernels() {
  static const CpuKernels& chosen = [&]() -> const CpuKernels& {
    if (const char* wanted = std::getenv("SIDA_ISA")) {
      if (const CpuKernels* kernels = cpu_kernels_named(wanted)) return *kernels;
    }
    for (const char* isa : kKernelSets) {
      if (const CpuKernels* kernels = cpu_kernels_named(isa)) return *kernels;
    }
    return kScalarKernels;
  }();
  return chosen;
}

}  // namespace sida
