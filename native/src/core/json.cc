#include "core/json.h"

#include <charconv>

#include "core/error.h"
#include "core/json_reader.h"

namespace sida {
namespace {

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
  return parse_whole<uint64_t>(tree_->characters_of(node()));
}

std::optional<int64_t> JsonValue::try_i64() const {
  if (kind() != JsonKind::kNumber) return std::nullopt;
  return parse_whole<int64_t>(tree_->characters_of(node()));
}

std::optional<double> JsonValue::try_double() const {
  if (kind() != JsonKind::kNumber) return std::nullopt;
  return parse_whole<double>(tree_->characters_of(node()));
}

std::optional<std::string> JsonValue::try_string() const {
  if (const auto text = try_text()) return std::string(*text);
  return std::nullopt;
}

std::optional<std::string_view> JsonValue::try_text() const {
  if (kind() != JsonKind::kString) return std::nullopt;
  return tree_->characters_of(node());
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
    if (tree_->characters_of(tree_->nodes[at]) == key) return JsonValue(tree_, at + 1);
    at = tree_->after(at + 1);
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
      return escape_text(tree_->characters_of(node()), 40);
    case JsonKind::kString:
      return "\"" + escape_text(tree_->characters_of(node())) + "\"";
    case JsonKind::kArray:
      return "an array of " + std::to_string(node().size);
    case JsonKind::kObject:
      return "an object of " + std::to_string(node().size);
  }
  return "";
}

void JsonValue::fail(const char* expected) const {
  throw Error(tree_->source.code,
              escape_text(tree_->source.name, 512) + ": expected " + expected + ", found " + describe() + " at byte " +
                  std::to_string(position()),
              {{"position", static_cast<double>(position())}});
}

JsonElements::Iterator& JsonElements::Iterator::operator++() {
  node_ = tree_->after(node_);
  --left_;
  return *this;
}

JsonMember JsonMembers::Iterator::operator*() const {
  return {tree_->characters_of(tree_->nodes[node_]), JsonValue(tree_, node_ + 1)};
}

JsonMembers::Iterator& JsonMembers::Iterator::operator++() {
  node_ = tree_->after(node_ + 1);
  --left_;
  return *this;
}

JsonDocument JsonDocument::parse(const JsonInput& text, JsonSource source) {
  auto tree = std::make_unique<JsonTree>();
  tree->source = std::move(source);
  read_json(text, tree.get(), nullptr);
  return JsonDocument(std::move(tree));
}

void for_each_json_member(const JsonInput& text, const JsonSource& source,
                          const std::function<void(std::string key, JsonValue value)>& visit) {
  JsonTree tree{source, {}, {}};
  read_json(text, &tree, &visit);
}

}  // namespace sida
