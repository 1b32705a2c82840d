#include "core/error.h"

#include <cstdio>
#include <utility>

#include "core/utf8.h"

namespace sida {
namespace {

bool is_invisible(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x061c || c == 0x180e ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
         (c >= 0xfdd0 && c <= 0xfdef) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb) ||
         (c & 0xfffe) == 0xfffe || (c >= 0xe0000 && c <= 0xe0fff);
}

}  // namespace

Error::Error(std::string code, const std::string& message, std::map<std::string, double> numbers)
    : std::runtime_error(message), code_(std::move(code)), numbers_(std::move(numbers)) {}

std::string escape_text(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t at = 0;
  while (at < text.size() && out.size() < max_bytes) {
    uint32_t c = 0;
    const size_t length = decode_utf8(text.substr(at), &c);
    char escape[16];
    if (length == 0) {
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(text[at]));
      out += escape;
      ++at;
      continue;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (is_invisible(c)) {
      std::snprintf(escape, sizeof escape, c > 0xffff ? "\\u{%x}" : "\\u%04x", c);
      out += escape;
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  if (at < text.size()) out += "… (" + std::to_string(text.size()) + " bytes)";
  return out;
}

}  // namespace sida
