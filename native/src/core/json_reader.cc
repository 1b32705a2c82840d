#include "core/json_reader.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "core/error.h"
#include "core/json_text.h"

#define JSON_NO_IO
#include "nlohmann/json.hpp"

namespace sida {
namespace {

// Long double, so that a number beyond a double's range can be read. It is refused where a finite number is asked for.
using Library = nlohmann::basic_json<std::map, std::vector, std::string, bool, int64_t, uint64_t, long double>;

/// The library's error id for a number that does not fit its own type.
constexpr int kNumberOverflow = 406;

/// Receives the library's events and checks what the library does not: depth, duplicate keys, memory.
class TreeBuilder {
 public:
  TreeBuilder(JsonText* text, JsonTree* tree, const JsonVisit* visit) : text_(text), tree_(tree), visit_(visit) {}

  bool null() { return add_value(JsonKind::kNull); }
  bool boolean(bool value) { return add_value(value ? JsonKind::kTrue : JsonKind::kFalse); }
  // Numbers with a sign.
  bool number_integer(int64_t value) { return add_value(JsonKind::kNumber, value == 0 ? "-0" : std::to_string(value)); }
  bool number_unsigned(uint64_t value) { return add_value(JsonKind::kNumber, std::to_string(value)); }
  bool number_float(long double, const std::string& digits) { return add_value(JsonKind::kNumber, digits); }
  bool string(const std::string& value) { return add_value(JsonKind::kString, value); }
  bool binary(const Library::binary_t&) { return false; }

  bool key(const std::string& name) {
    if (visits_members()) {
      tree_->nodes.resize(1);
      tree_->characters.clear();
    }
    add(JsonKind::kString, name);
    ++tree_->nodes[open_.back()].size;
    return true;
  }
  bool start_object(size_t) { return open(JsonKind::kObject); }
  bool start_array(size_t) { return open(JsonKind::kArray); }
  bool end_object() {
    if (!visits_members()) check_duplicates(open_.back());
    return close();
  }
  bool end_array() { return close(); }

  bool parse_error(size_t bytes_read, const std::string& token, const Library::exception& error) {
    if (error.id == kNumberOverflow) {
      text_->fail("expected a finite number", escape_text(token, 40), text_->token());
    }
    // Only the text after the library's line, column and token is used: a token may be megabytes.
    std::string fault = error.what();
    fault.erase(0, fault.find(": ") + 2);
    const std::string read = "; last read: '" + token + "'";
    if (const size_t at = fault.find(read); at != std::string::npos) fault.erase(at, read.size());
    text_->fail(fault, bytes_read - 1);
  }

 private:
  /// Whether the innermost container is the object whose members are visited.
  bool visits_members() const { return visit_ != nullptr && open_.size() == 1; }

  void add(JsonKind kind, std::string_view characters) {
    if (visit_ != nullptr && tree_->nodes.empty() && kind != JsonKind::kObject) {
      text_->fail("expected an object", text_->token());
    }
    std::string& held = tree_->characters;
    const size_t most = tree_->source.max_held;
    if ((tree_->nodes.size() + 1) * sizeof(JsonNode) + held.size() + characters.size() > most) {
      text_->fail("expected at most " + std::to_string(most) + " bytes of values", "more" + in_member(),
                  text_->token());
    }
    const uint32_t quote = kind == JsonKind::kString ? 1 : 0;
    tree_->nodes.push_back({static_cast<uint32_t>(text_->token()) + quote, static_cast<uint32_t>(held.size()),
                            static_cast<uint32_t>(characters.size()), kind});
    held += characters;
    text_->end_token(kind == JsonKind::kString || kind == JsonKind::kNumber);
  }

  /// ` in "key"` where members are visited.
  std::string in_member() const {
    if (visit_ == nullptr || tree_->nodes.size() <= kKey) return "";
    return " in \"" + escape_text(tree_->characters_of(tree_->nodes[kKey])) + "\"";
  }

  bool add_value(JsonKind kind, std::string_view characters = {}) {
    count_element();
    add(kind, characters);
    return end_value();
  }

  bool open(JsonKind kind) {
    if (open_.size() == kJsonMaxDepth) {
      text_->fail("expected at most " + std::to_string(kJsonMaxDepth) + " levels of nesting", text_->token());
    }
    count_element();
    add(kind, {});
    open_.push_back(static_cast<uint32_t>(tree_->nodes.size() - 1));
    return true;
  }

  bool close() {
    tree_->nodes[open_.back()].at = static_cast<uint32_t>(tree_->nodes.size());
    open_.pop_back();
    text_->end_token(false);
    return end_value();
  }

  // Members are counted by their keys.
  void count_element() {
    if (open_.empty()) return;
    JsonNode& container = tree_->nodes[open_.back()];
    if (container.kind == JsonKind::kArray) ++container.size;
  }

  bool end_value() {
    if (visits_members()) {
      (*visit_)(std::string(tree_->characters_of(tree_->nodes[kKey])), JsonValue(tree_, kKey + 1));
    }
    return true;
  }

  void check_duplicates(uint32_t object) {
    keys_.clear();
    uint32_t key = object + 1;
    for (uint32_t left = tree_->nodes[object].size; left > 0; --left) {
      keys_.push_back(key);
      key = tree_->after(key + 1);
    }
    const auto name = [this](uint32_t node) { return tree_->characters_of(tree_->nodes[node]); };
    std::sort(keys_.begin(), keys_.end(), [&](uint32_t a, uint32_t b) {
      const int order = name(a).compare(name(b));
      return order != 0 ? order < 0 : a < b;
    });
    const auto same = [&](uint32_t a, uint32_t b) { return name(a) == name(b); };
    const auto twice = std::adjacent_find(keys_.begin(), keys_.end(), same);
    if (twice == keys_.end()) return;
    text_->fail("expected each key once", "\"" + escape_text(name(*twice)) + "\" twice",
                tree_->nodes[twice[1]].position);
  }

  /// The key of the current member, where members are visited.
  static constexpr uint32_t kKey = 1;

  JsonText* text_;
  JsonTree* tree_;
  const JsonVisit* visit_;
  std::vector<uint32_t> open_;
  std::vector<uint32_t> keys_;
};

}  // namespace

void read_json(const JsonInput& input, JsonTree* tree, const JsonVisit* visit) {
  JsonText text(input, tree->source);
  // Reserved at once: growing would hold the nodes twice, and memory that is never written is not taken.
  const uint64_t most = tree->source.max_held;
  tree->characters.reserve(std::min(input.size, most));
  tree->nodes.reserve(std::min(input.size / 2 + 1, most / sizeof(JsonNode)));
  TreeBuilder builder(&text, tree, visit);
  Library::sax_parse(JsonTextIterator(&text), JsonTextIterator(), &builder);
  text.check_ended();
}

}  // namespace sida
