#include "checkpoint/gguf_cursor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/checkpoint_error.h"

namespace sida {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

}  // namespace

Error GgufCursor::fault(const std::string& what, const std::string& expected, const std::string& found,
                        const std::string& hint, std::map<std::string, double> numbers) const {
  const std::string subject = key_.empty() ? "" : "key \"" + escape_text(key_) + "\": ";
  return checkpoint_error({display_, tensor_, subject + what, expected, found, hint, std::move(numbers)});
}

void GgufCursor::check(uint64_t bytes, const char* what) const {
  if (bytes > left()) {
    throw fault(std::string("file ends in ") + what, std::to_string(bytes) + " bytes at " + std::to_string(position_),
                std::to_string(left()), "the file may have been cut: download it again", expected_found(bytes, left()));
  }
  if (position_ > limit_ || bytes > limit_ - position_) {
    throw fault("too much metadata", "at most " + std::to_string(limit_) + " bytes before the tensors",
                std::to_string(bytes) + " more at " + std::to_string(position_));
  }
}

void GgufCursor::read_bytes(void* out, size_t bytes, const char* what) {
  check(bytes, what);
  const uint64_t end = buffer_begin_ + buffer_.size();
  if (position_ < buffer_begin_ || position_ + bytes > end) {
    buffer_.resize(std::min<uint64_t>(std::max(bytes, kBufferBytes), left()));
    buffer_begin_ = position_;
    file_.pread_exact(position_, buffer_.data(), buffer_.size());
  }
  std::memcpy(out, buffer_.data() + (position_ - buffer_begin_), bytes);
  position_ += bytes;
}

std::string GgufCursor::read_text(uint64_t most, const char* what) {
  const auto length = read<uint64_t>(what);
  if (length > most) {
    throw fault(std::string("length of ") + what, "at most " + std::to_string(most) + " bytes", std::to_string(length),
                "", expected_found(most, length));
  }
  std::string text(length, '\0');
  read_bytes(text.data(), length, what);
  return text;
}

void GgufCursor::skip(uint64_t bytes, const char* what) {
  check(bytes, what);
  position_ += bytes;
}

}  // namespace sida
