#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace sida {

// Appends the nodes of a text to a tree. The text's UTF-8 is checked when the parser is made.
class JsonParser {
 public:
  // `tree` holds source and text, and outlives the parser.
  explicit JsonParser(JsonTree* tree);

  // The whole text as one value.
  void parse_document();
  // The whole text as an object whose members are visited and forgotten one by one.
  void parse_members(const std::function<void(std::string, JsonValue)>& visit);

 private:
  void parse_value(int depth);
  void parse_object(int depth);
  void parse_array(int depth);
  void parse_string();
  void parse_escape();
  uint32_t parse_hex4();
  void parse_number();
  void take_digits();
  void parse_word(std::string_view word, JsonKind kind);

  uint32_t open(JsonKind kind);
  void close(uint32_t node, uint32_t count);
  void check_duplicates(uint32_t object) const;
  void check_end();
  void skip_blanks();
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void take(char expected, const char* what);
  [[noreturn]] void fail(const std::string& expected) const;
  [[noreturn]] void fail(const std::string& expected, const std::string& found, size_t position) const;

  JsonTree* tree_;
  std::string_view text_;
  size_t at_ = 0;
};

// The characters a raw string stands for. The raw text was parsed, so its escapes are sound.
std::string unescape_json(std::string_view raw);

// Value of a character that is a hexadecimal digit.
uint32_t json_hex_digit(char digit);

}  // namespace sida
