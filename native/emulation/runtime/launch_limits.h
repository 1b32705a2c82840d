#pragma once

#include <cstddef>

namespace sida::emulation {

// Those of compute capability 9.0 (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability").
inline constexpr unsigned kMostThreads = 1024;
inline constexpr unsigned kMostThreadsDeep = 64;
inline constexpr unsigned kMostBlocksWide = 0x7fffffff;
inline constexpr unsigned kMostBlocksHigh = 65535;
inline constexpr size_t kSharedBytes = size_t{48} << 10;       ///< unless cudaFuncSetAttribute() raises it
inline constexpr size_t kMostSharedBytes = size_t{227} << 10;  ///< to which it can
inline constexpr size_t kMostArgumentBytes = size_t{4} << 10;  ///< what every driver takes

}  // namespace sida::emulation
