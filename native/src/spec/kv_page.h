#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// Tokens of one KV page: one 16-lane vector of keys.
inline constexpr size_t kPageTokens = 16;

/// The type of cached keys, values and latent rows. bf16: rounded to the nearest, ties to even. q8_0: int8 codes, and a
/// bf16 scale for each kKvBlock neighbouring columns of a token. The scales of 16 tokens follow their codes, in the
/// same order.
enum class KvFormat : uint8_t { kF32, kBf16, kQ8_0 };

inline constexpr size_t kKvBlock = 32;

inline constexpr const char* kKvFormatNames[] = {"f32", "bf16", "q8_0"};

/// Of `elements` numbers, which are whole blocks.
constexpr uint64_t kv_bytes(KvFormat format, uint64_t elements) {
  return format == KvFormat::kF32 ? 4 * elements : format == KvFormat::kBf16 ? 2 * elements : elements + elements / 16;
}

}  // namespace sida
