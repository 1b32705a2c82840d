#pragma once

namespace sida {

struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool avx512 = false;
  bool vnni = false;
};

CpuFeatures cpu_features();

}  // namespace sida
