#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sida {

/// Reads the first code point of `text` into `*code_point`. Returns its length in bytes, or 0 where `text` is
/// empty or does not begin with well-formed UTF-8 (overlong forms, surrogates and values past U+10FFFF are
/// malformed).
size_t decode_utf8(std::string_view text, uint32_t* code_point);

/// Whether all of a text is well-formed.
bool is_utf8(std::string_view text);

}  // namespace sida
