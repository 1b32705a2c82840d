#include "core/cpu_features.h"

namespace sida {

CpuFeatures cpu_features() {
  CpuFeatures features;
#if defined(__x86_64__)
  features.avx2 = __builtin_cpu_supports("avx2");
  features.fma = __builtin_cpu_supports("fma");
  features.avx512 = __builtin_cpu_supports("avx512f");
  features.vnni = __builtin_cpu_supports("avx512vnni");
#endif
  return features;
}

}  // namespace sida
