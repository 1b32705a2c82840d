#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "core/json.h"

namespace sida {

/// A text as the library takes it, byte by byte, and where in it the library is.
class JsonText {
 public:
  /// Throws where the text is longer than its source allows.
  JsonText(const JsonInput& input, const JsonSource& source);

  bool ended() { return next_ == filled_ && !fill(); }
  /// The next byte; there must be one. Blanks between tokens all become spaces: the library holds them for
  /// its messages, with eight characters for a line feed.
  char peek() const {
    const char c = piece_[next_];
    return between_tokens_ && (c == '\n' || c == '\t' || c == '\r') ? ' ' : c;
  }
  void take() {
    const char c = piece_[next_];
    if (between_tokens_ && c != ',' && c != ':' && static_cast<unsigned char>(c) > ' ') {
      token_ = position();
      between_tokens_ = false;
    }
    ++next_;
  }

  /// The first byte of the token at hand, or of the last one.
  uint64_t token() const { return token_; }
  /// The library reported a token; with `forgotten` it dropped what it held of the text.
  void end_token(bool forgotten) {
    between_tokens_ = true;
    if (forgotten) held_from_ = position();
  }
  /// Throws where the library stopped before the end: it takes a NUL for one.
  void check_ended() const;

  /// Each throws an error of the source's code with the position.
  [[noreturn]] void fail(const std::string& fault, const std::string& found, uint64_t position) const;
  /// The same, found is the byte there.
  [[noreturn]] void fail(const std::string& fault, uint64_t position) const;

 private:
  uint64_t position() const { return piece_at_ + next_; }
  bool fill();

  const JsonInput& input_;
  const JsonSource& source_;
  std::array<char, 64 << 10> piece_;
  uint64_t piece_at_ = 0;
  size_t next_ = 0;
  size_t filled_ = 0;
  uint64_t token_ = 0;
  uint64_t held_from_ = 0;
  bool between_tokens_ = true;
  bool seen_end_ = false;
};

/// The library's way through a text; one without a text is the end.
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
