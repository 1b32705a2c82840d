#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "core/json.h"

namespace sida {

/// Feeds a text to the JSON library byte by byte and keeps the library's position in it.
class JsonText {
 public:
  /// Throws where the text is longer than its source allows.
  JsonText(const JsonInput& input, const JsonSource& source);

  bool ended() { return next_ == filled_ && !fill(); }
  /// The next byte; there must be one. All blanks between tokens become spaces: the library keeps them for its messages
  /// and spends eight characters on a line feed.
  char peek() const {
    const char c = chunk_[next_];
    return between_tokens_ && (c == '\n' || c == '\t' || c == '\r') ? ' ' : c;
  }
  void take() {
    const char c = chunk_[next_];
    if (between_tokens_ && c != ',' && c != ':' && static_cast<unsigned char>(c) > ' ') {
      token_ = position();
      between_tokens_ = false;
    }
    ++next_;
  }

  /// Position of the current token, or of the last one.
  uint64_t token() const { return token_; }
  /// Called when the library has reported a token. With `forgotten` the library has dropped the text it held.
  void end_token(bool forgotten) {
    between_tokens_ = true;
    if (forgotten) held_from_ = position();
  }
  /// Throws where the library stopped before the end of the text. It takes a NUL for the end.
  void check_ended() const;

  /// Each throws an error of the source's code with the position.
  [[noreturn]] void fail(const std::string& fault, const std::string& found, uint64_t position) const;
  /// The same; the byte at `position` is what was found.
  [[noreturn]] void fail(const std::string& fault, uint64_t position) const;

 private:
  uint64_t position() const { return chunk_at_ + next_; }
  bool fill();

  const JsonInput& input_;
  const JsonSource& source_;
  std::array<char, 64 << 10> chunk_;
  uint64_t chunk_at_ = 0;
  size_t next_ = 0;
  size_t filled_ = 0;
  uint64_t token_ = 0;
  uint64_t held_from_ = 0;
  bool between_tokens_ = true;
  bool seen_end_ = false;
};

/// The iterator through which the library reads a text. An iterator without a text is the end.
class JsonTextIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit JsonTextIterator(JsonText* text = nullptr) : text_(text) {}
  char operator*() const { return text_->peek(); }
  JsonTextIterator& operator++() {
    text_->take();
    return *this;
  }
  bool operator!=(const JsonTextIterator& end) const { return text_ != end.text_ && !text_->ended(); }
  bool operator==(const JsonTextIterator& end) const { return !(*this != end); }

 private:
  JsonText* text_;
};

}  // namespace sida
