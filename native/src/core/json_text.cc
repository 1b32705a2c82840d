#include "core/json_text.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "core/file.h"

namespace sida {
namespace {

/// Longest string, and longest run of bytes without a string or number. The library holds twice as much, and several
/// times as much for an error.
constexpr uint64_t kMaxHeldText = 4 << 20;

}  // namespace

JsonInput::JsonInput(std::string_view text)
    : size(text.size()),
      read([text](uint64_t offset, char* out, size_t bytes) { std::memcpy(out, text.data() + offset, bytes); }) {}

JsonInput::JsonInput(const File& file) : JsonInput(file, 0, file.size()) {}

JsonInput::JsonInput(const File& file, uint64_t offset, uint64_t bytes)
    : size(bytes),
      read([&file, offset](uint64_t at, char* out, size_t bytes) { file.pread_exact(offset + at, out, bytes); }) {}

JsonText::JsonText(const JsonInput& input, const JsonSource& source) : input_(input), source_(source) {
  if (input.size > source.max_text) {
    fail("expected at most " + std::to_string(source.max_text) + " bytes", std::to_string(input.size), 0);
  }
  // The library would skip a byte order mark.
  if (!ended() && peek() == '\xef') fail("expected a value", 0);
}

bool JsonText::fill() {
  chunk_at_ += filled_;
  next_ = 0;
  filled_ = std::min<uint64_t>(chunk_.size(), input_.size - chunk_at_);
  seen_end_ = filled_ == 0;
  if (seen_end_) return false;
  if (chunk_at_ - held_from_ > kMaxHeldText) {
    fail("expected at most " + std::to_string(kMaxHeldText) + " bytes in a string or between two", "more", held_from_);
  }
  input_.read(chunk_at_, chunk_.data(), filled_);
  return true;
}

void JsonText::check_ended() const {
  if (!seen_end_) fail("expected nothing after the value", position() - 1);
}

void JsonText::fail(const std::string& fault, const std::string& found, uint64_t position) const {
  throw Error(source_.code,
              escape_text(source_.name, 512) + ": not sound JSON: " + fault + ", found " + found + " at byte " +
                  std::to_string(position),
              {{"position", static_cast<double>(position)}});
}

void JsonText::fail(const std::string& fault, uint64_t position) const {
  if (position >= input_.size) fail(fault, "the end of the text", input_.size);
  char byte = 0;
  input_.read(position, &byte, 1);
  char number[16];
  std::snprintf(number, sizeof number, "byte 0x%02x", static_cast<unsigned char>(byte));
  const bool ascii = static_cast<unsigned char>(byte) < 0x80;
  fail(fault, ascii ? "\"" + escape_text({&byte, 1}) + "\"" : number, position);
}

}  // namespace sida
