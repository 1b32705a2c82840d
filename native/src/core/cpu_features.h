#pragma once

namespace sida {

struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool avx512 = false;
  bool vnni = false;
};

CpuFeatures cpu_features();

/// Whether the processor multiplies 8-bit tiles (AMX) and the system lets this process do so.
bool may_use_tiles();

}  // namespace sida
