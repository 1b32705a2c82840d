#pragma once

#include <cstddef>

namespace sida {

// Ranges of a config's numbers, the same for all families. With them, all experts together are below 2^62 bytes, and
// expert numbers and flat ids fit their types.
inline constexpr int kMaxVocab = 1 << 24;
inline constexpr int kMaxWidth = 1 << 16;
inline constexpr int kMaxFfnWidth = 1 << 18;
inline constexpr int kMaxLayers = 256;       ///< of a stack
inline constexpr int kMaxLatentHeads = 512;  ///< each has matrices of its own
inline constexpr int kMaxExperts = 65535;
inline constexpr size_t kMaxAllExperts = 1 << 20;  ///< of all layers together
inline constexpr int kMaxTopK = 64;
inline constexpr int kMaxCount = 1 << 30;

}  // namespace sida
