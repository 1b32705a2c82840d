#include "core/json_parser.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/error.h"
#include "core/utf8.h"

namespace sida {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

JsonParser::JsonParser(JsonTree* tree) : tree_(tree), text_(tree->text) {
  // Nodes hold 32-bit positions.
  if (text_.size() >= UINT32_MAX) {
    fail("a text below 4 GiB", std::to_string(text_.size()) + " bytes", 0);
  }
  const size_t invalid = find_invalid_utf8(text_);
  if (invalid != std::string_view::npos) {
    char byte[32];
    std::snprintf(byte, sizeof byte, "byte 0x%02x", static_cast<unsigned char>(text_[invalid]));
    fail("UTF-8", byte, invalid);
  }
}

void JsonParser::parse_document() {
  parse_value(0);
  check_end();
}

void JsonParser::parse_members(const std::function<void(std::string, JsonValue)>& visit) {
  skip_blanks();
  take('{', "an object");
  skip_blanks();
  if (peek() == '}') {
    ++at_;
    return check_end();
  }
  for (;;) {
    tree_->nodes.clear();
    skip_blanks();
    if (peek() != '"') fail("a key");
    parse_string();
    const JsonNode& key = tree_->nodes.front();
    const std::string_view raw = text_.substr(key.begin, key.size);
    std::string name = key.escaped ? unescape_json(raw) : std::string(raw);
    skip_blanks();
    take(':', "\":\"");
    parse_value(1);
    visit(std::move(name), JsonValue(tree_, 1));
    skip_blanks();
    if (peek() == '}') break;
    take(',', "\",\" or \"}\"");
  }
  ++at_;
  check_end();
}

void JsonParser::parse_value(int depth) {
  skip_blanks();
  switch (peek()) {
    case '{':
      return parse_object(depth + 1);
    case '[':
      return parse_array(depth + 1);
    case '"':
      return parse_string();
    case 't':
      return parse_word("true", JsonKind::kTrue);
    case 'f':
      return parse_word("false", JsonKind::kFalse);
    case 'n':
      return parse_word("null", JsonKind::kNull);
    default:
      return parse_number();
  }
}

void JsonParser::parse_object(int depth) {
  if (depth > kJsonMaxDepth) fail("at most " + std::to_string(kJsonMaxDepth) + " levels of nesting");
  const uint32_t node = open(JsonKind::kObject);
  ++at_;
  skip_blanks();
  uint32_t count = 0;
  if (peek() != '}') {
    for (;; ++count) {
      skip_blanks();
      if (peek() != '"') fail("a key");
      parse_string();
      skip_blanks();
      take(':', "\":\"");
      parse_value(depth);
      skip_blanks();
      if (peek() == '}') break;
      take(',', "\",\" or \"}\"");
    }
    ++count;
  }
  ++at_;
  close(node, count);
  check_duplicates(node);
}

void JsonParser::parse_array(int depth) {
  if (depth > kJsonMaxDepth) fail("at most " + std::to_string(kJsonMaxDepth) + " levels of nesting");
  const uint32_t node = open(JsonKind::kArray);
  ++at_;
  skip_blanks();
  uint32_t count = 0;
  if (peek() != ']') {
    for (;; ++count) {
      parse_value(depth);
      skip_blanks();
      if (peek() == ']') break;
      take(',', "\",\" or \"]\"");
    }
    ++count;
  }
  ++at_;
  close(node, count);
}

void JsonParser::parse_string() {
  const size_t begin = ++at_;
  bool escaped = false;
  for (;;) {
    if (at_ >= text_.size()) fail("the end of a string");
    const char c = text_[at_];
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) fail("no control character in a string");
    if (c == '\\') {
      escaped = true;
      parse_escape();
    } else {
      ++at_;
    }
  }
  const uint32_t node = open(JsonKind::kString);
  tree_->nodes[node].begin = static_cast<uint32_t>(begin);
  tree_->nodes[node].escaped = escaped;
  close(node, static_cast<uint32_t>(at_ - begin));
  ++at_;
}

void JsonParser::parse_escape() {
  ++at_;
  const char c = peek();
  if (c != 'u') {
    if (c == '\0' || std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) fail("an escape");
    ++at_;
    return;
  }
  const size_t begin = at_ - 1;
  const uint32_t unit = parse_hex4();
  const auto lone = [&] { fail("a surrogate pair", escape_text(text_.substr(begin, 6)), begin); };
  if (unit >= 0xdc00 && unit <= 0xdfff) lone();
  if (unit >= 0xd800 && unit <= 0xdbff) {
    if (text_.substr(at_, 2) != "\\u") lone();
    ++at_;
    const uint32_t low = parse_hex4();
    if (low < 0xdc00 || low > 0xdfff) lone();
  }
}

uint32_t JsonParser::parse_hex4() {
  ++at_;
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    if (!is_hex_digit(peek())) fail("four hexadecimal digits");
    value = value << 4 | json_hex_digit(peek());
  }
  return value;
}

void JsonParser::parse_number() {
  const size_t begin = at_;
  if (peek() == '-') {
    ++at_;
  } else if (!is_digit(peek())) {
    fail("a value");
  }
  if (peek() == '0') {
    ++at_;
    if (is_digit(peek())) fail("no leading zero");
  } else {
    take_digits();
  }
  if (peek() == '.') {
    ++at_;
    take_digits();
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    take_digits();
  }
  const uint32_t node = open(JsonKind::kNumber);
  tree_->nodes[node].begin = static_cast<uint32_t>(begin);
  close(node, static_cast<uint32_t>(at_ - begin));
}

void JsonParser::take_digits() {
  if (!is_digit(peek())) fail("a digit");
  while (is_digit(peek())) ++at_;
}

void JsonParser::parse_word(std::string_view word, JsonKind kind) {
  if (text_.substr(at_, word.size()) != word) fail("a value");
  const uint32_t node = open(kind);
  at_ += word.size();
  close(node, 0);
}

uint32_t JsonParser::open(JsonKind kind) {
  tree_->nodes.push_back({static_cast<uint32_t>(at_), 0, 0, kind, false});
  return static_cast<uint32_t>(tree_->nodes.size() - 1);
}

void JsonParser::close(uint32_t node, uint32_t count) {
  tree_->nodes[node].size = count;
  tree_->nodes[node].next = static_cast<uint32_t>(tree_->nodes.size());
}

void JsonParser::check_duplicates(uint32_t object) const {
  const uint32_t count = tree_->nodes[object].size;
  if (count < 2) return;
  // Keys as they read unescaped, so that "a" and "\u0061" are one.
  std::vector<uint32_t> keys;
  keys.reserve(count);
  bool escaped = false;
  uint32_t node = object + 1;
  for (uint32_t i = 0; i < count; ++i) {
    keys.push_back(node);
    escaped = escaped || tree_->nodes[node].escaped;
    node = tree_->nodes[node + 1].next;
  }
  const auto raw = [this](uint32_t key) {
    return text_.substr(tree_->nodes[key].begin, tree_->nodes[key].size);
  };
  const auto report = [&](uint32_t key) {
    fail("each key once", "\"" + escape_text(unescape_json(raw(key))) + "\" twice", tree_->nodes[key].begin);
  };
  if (!escaped && count <= 8) {
    for (uint32_t i = 1; i < count; ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        if (raw(keys[i]) == raw(keys[j])) report(keys[i]);
      }
    }
    return;
  }
  std::vector<std::pair<std::string_view, uint32_t>> sorted;
  std::vector<std::string> unescaped;
  sorted.reserve(count);
  // Reserved whole: the views point into the strings.
  if (escaped) unescaped.reserve(count);
  for (const uint32_t key : keys) {
    if (tree_->nodes[key].escaped) {
      unescaped.push_back(unescape_json(raw(key)));
      sorted.emplace_back(unescaped.back(), key);
    } else {
      sorted.emplace_back(raw(key), key);
    }
  }
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t i = 1; i < count; ++i) {
    if (sorted[i].first == sorted[i - 1].first) report(sorted[i].second);
  }
}

void JsonParser::check_end() {
  skip_blanks();
  if (at_ != text_.size()) fail("nothing after the value");
}

void JsonParser::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
    ++at_;
  }
}

void JsonParser::take(char expected, const char* what) {
  if (at_ >= text_.size() || text_[at_] != expected) fail(what);
  ++at_;
}

void JsonParser::fail(const std::string& expected) const {
  if (at_ >= text_.size()) fail(expected, "the end of the text", at_);
  uint32_t ignored = 0;
  const size_t length = std::max<size_t>(1, decode_utf8(text_.substr(at_), &ignored));
  fail(expected, "\"" + escape_text(text_.substr(at_, length)) + "\"", at_);
}

void JsonParser::fail(const std::string& expected, const std::string& found, size_t position) const {
  throw Error(tree_->source.code,
              escape_text(tree_->source.name, 512) + ": not sound JSON: expected " + expected + ", found " +
                  found + " at byte " + std::to_string(position),
              {{"position", static_cast<double>(position)}});
}

}  // namespace sida
