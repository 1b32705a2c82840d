#include "ops/cpu/kernels.h"

#include <cstdlib>
#include <cstring>

#include "core/cpu_features.h"

namespace sida {

extern const FloatKernels kScalarFloat;
extern const RoundedKernels kScalarRounded;
#if defined(__x86_64__)
extern const FloatKernels kAvx2Float, kAvx512Float;
extern const RoundedKernels kAvx2Rounded, kAvx512Rounded, kAvx512VnniRounded, kAvx512AmxRounded;
#endif

const CpuKernels* cpu_kernels_named(const char* isa) {
  const auto named = [&](const char* name) { return std::strcmp(isa, name) == 0; };
  static const CpuKernels scalar{kScalarFloat, kScalarRounded, "scalar"};
  if (named("scalar")) return &scalar;
#if defined(__x86_64__)
  static const CpuKernels avx2{kAvx2Float, kAvx2Rounded, "avx2"};
  static const CpuKernels avx512{kAvx512Float, kAvx512Rounded, "avx512"};
  static const CpuKernels vnni{kAvx512Float, kAvx512VnniRounded, "avx512vnni"};
  static const CpuKernels amx{kAvx512Float, kAvx512AmxRounded, "avx512amx"};
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2 && named("avx2")) return &avx2;
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl");
  if (has_avx512 && named("avx512")) return &avx512;
  const bool has_vnni = has_avx512 && __builtin_cpu_supports("avx512vnni");
  if (has_vnni && named("avx512vnni")) return &vnni;
  if (has_vnni && named("avx512amx") && may_use_tiles()) return &amx;
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
    return *cpu_kernels_named("scalar");
  }();
  return chosen;
}

}  // namespace sida
