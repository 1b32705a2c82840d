#include "core/json.h"

#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/json_parser.h"
#include "core/utf8.h"

namespace sida {
namespace {

std::string_view raw_text(const JsonTree* tree, const JsonNode& node) {
  return tree->text.substr(node.begin, node.size);
}

std::string string_of(const JsonTree* tree, const JsonNode& node) {
  const std::string_view raw = raw_text(tree, node);
  return node.escaped ? unescape_json(raw) : std::string(raw);
}

template <typename T>
std::optional<T> parse_whole(std::string_view raw) {
  T value{};
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), value);
  if (error != std::errc() || end != raw.data() + raw.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<bool> JsonValue::try_bool() const {
  if (kind() == JsonKind::kTrue) return true;
  if (kind() == JsonKind::kFalse) return false;
  return std::nullopt;
}

std::optional<uint64_t> JsonValue::try_u64() const {
  if (kind() != JsonKind::kNumber) return std::nullopt;
  return parse_whole<uint64_t>(raw_text(tree_, node()));
}

std::optional<int64_t> JsonValue::try_i64() const {
  if (kind() != JsonKind::kNumber) return std::nullopt;
  return parse_whole<int64_t>(raw_text(tree_, node()));
}

std::optional<double> JsonValue::try_double() const {
  if (kind() != JsonKind::kNumber) return std::nullopt;
  return parse_whole<double>(raw_text(tree_, node()));
}

std::optional<std::string> JsonValue::try_string() const {
  if (kind() != JsonKind::kString) return std::nullopt;
  return string_of(tree_, node());
}

bool JsonValue::as_bool() const {
  if (const auto value = try_bool()) return *value;
  fail("true or false");
}

uint64_t JsonValue::as_u64() const {
  if (const auto value = try_u64()) return *value;
  fail("a whole number from 0 to 2^64-1");
}

int64_t JsonValue::as_i64() const {
  if (const auto value = try_i64()) return *value;
  fail("a whole number of 64 bits");
}

double JsonValue::as_double() const {
  if (const auto value = try_double()) return *value;
  fail("a finite number");
}

std::string JsonValue::as_string() const {
  if (auto value = try_string()) return *std::move(value);
  fail("a string");
}

JsonElements JsonValue::elements() const {
  if (!is_array()) fail("an array");
  return {tree_, node_ + 1, node().size};
}

JsonMembers JsonValue::members() const {
  if (!is_object()) fail("an object");
  return {tree_, node_ + 1, node().size};
}

size_t JsonValue::size() const { return is_array() || is_object() ? node().size : 0; }

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!is_object()) return std::nullopt;
  uint32_t at = node_ + 1;
  for (uint32_t i = 0; i < node().size; ++i) {
    const JsonNode& name = tree_->nodes[at];
    if (name.escaped ? unescape_json(raw_text(tree_, name)) == key : raw_text(tree_, name) == key) {
      return JsonValue(tree_, at + 1);
    }
    at = tree_->nodes[at + 1].next;
  }
  return std::nullopt;
}

JsonValue JsonValue::at(std::string_view key) const {
  if (const auto value = find(key)) return *value;
  fail(is_object() ? ("the field \"" + escape_text(key) + "\"").c_str() : "an object");
}

std::string JsonValue::describe() const {
  switch (kind()) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kFalse:
      return "false";
    case JsonKind::kTrue:
      return "true";
    case JsonKind::kNumber:
      return escape_text(raw_text(tree_, node()), 40);
    case JsonKind::kString:
      return "\"" + escape_text(string_of(tree_, node())) + "\"";
    case JsonKind::kArray:
      return "an array of " + std::to_string(node().size);
    case JsonKind::kObject:
      return "an object of " + std::to_string(node().size);
  }
  return "";
}

void JsonValue::fail(const char* expected) const {
  throw Error(tree_->source.code,
              escape_text(tree_->source.name, 512) + ": expected " + expected + ", found " + describe() +
                  " at byte " + std::to_string(position()),
              {{"position", static_cast<double>(position())}});
}

JsonElements::Iterator& JsonElements::Iterator::operator++() {
  node_ = tree_->nodes[node_].next;
  --left_;
  return *this;
}

JsonMember JsonMembers::Iterator::operator*() const {
  return {string_of(tree_, tree_->nodes[node_]), JsonValue(tree_, node_ + 1)};
}

JsonMembers::Iterator& JsonMembers::Iterator::operator++() {
  node_ = tree_->nodes[node_ + 1].next;
  --left_;
  return *this;
}

uint32_t json_hex_digit(char digit) {
  return static_cast<uint32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
}

std::string unescape_json(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  const auto unit = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 4 | json_hex_digit(raw[i]);
    return value;
  };
  for (size_t at = 0; at < raw.size();) {
    if (raw[at] != '\\') {
      out += raw[at++];
      continue;
    }
    const char c = raw[at + 1];
    at += 2;
    if (c == 'u') {
      uint32_t value = unit(at);
      at += 4;
      if (value >= 0xd800 && value <= 0xdbff) {
        value = 0x10000 + ((value - 0xd800) << 10) + (unit(at + 2) - 0xdc00);
        at += 6;
      }
      append_utf8(value, &out);
    } else {
      constexpr std::string_view kFrom = "bfnrt";
      const size_t which = kFrom.find(c);
      out += which == std::string_view::npos ? c : "\b\f\n\r\t"[which];
    }
  }
  return out;
}

JsonDocument JsonDocument::parse(std::string text, JsonSource source) {
  auto state = std::make_unique<State>();
  state->text = std::move(text);
  state->tree.source = std::move(source);
  state->tree.text = state->text;
  JsonParser(&state->tree).parse_document();
  state->tree.nodes.shrink_to_fit();
  return JsonDocument(std::move(state));
}

void for_each_json_member(std::string_view text, const JsonSource& source,
                          const std::function<void(std::string key, JsonValue value)>& visit) {
  JsonTree tree{source, text, {}};
  JsonParser(&tree).parse_members(visit);
}

}  // namespace sida
