#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// Tokens of one KV page: one 16-lane vector of keys.
inline constexpr size_t kPageTokens = 16;

/// The type of cached keys, values and latent rows. f32 is rounded to the nearest bf16, ties to even.
enum class KvFormat : uint8_t { kF32, kBf16 };

constexpr size_t kv_element_bytes(KvFormat format) { return format == KvFormat::kBf16 ? 2 : 4; }

}  // namespace sida
