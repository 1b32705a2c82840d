#pragma once

#include <cstddef>

namespace sida {

/// Tokens of one KV page: one 16-lane vector of keys.
inline constexpr size_t kPageTokens = 16;

}  // namespace sida
