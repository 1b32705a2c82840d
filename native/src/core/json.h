#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sida {

enum class JsonKind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

class File;

/// JSON text, read chunk by chunk. The string or file that holds it must outlive this.
struct JsonInput {
  template <std::convertible_to<std::string_view> Text>
  JsonInput(const Text& text) : JsonInput(std::string_view(text)) {}  // NOLINT: a text is one
  explicit JsonInput(std::string_view text);
  explicit JsonInput(const File& file);
  JsonInput(const File& file, uint64_t offset, uint64_t bytes);

  uint64_t size;
  std::function<void(uint64_t offset, char* out, size_t bytes)> read;
};

/// The name of a JSON text in errors, the code of those errors, and the limits beyond which the text is refused.
struct JsonSource {
  std::string name;
  std::string code = "checkpoint_invalid";
  uint32_t max_text = 8 << 20;
  /// Bytes of the values held at once: 16 for each value, plus the characters of strings and numbers.
  uint32_t max_held = 16 << 20;
};

/// One value of a text, 16 bytes. A container is followed by its children; an object's are key, value, key,
/// value.
struct JsonNode {
  uint32_t position;  ///< in the text; inside the quotes of a string
  uint32_t at;        ///< of a scalar, where its characters begin; of a container, the node after all in it
  uint32_t size;      ///< bytes of characters; of a container the number of elements or members
  JsonKind kind;
};

struct JsonTree {
  std::string_view characters_of(const JsonNode& node) const {
    return std::string_view(characters).substr(node.at, node.size);
  }
  /// The node after a value and everything in it.
  uint32_t after(uint32_t node) const {
    const bool container = nodes[node].kind == JsonKind::kArray || nodes[node].kind == JsonKind::kObject;
    return container ? nodes[node].at : node + 1;
  }

  JsonSource source;
  std::vector<JsonNode> nodes;
  /// Strings unescaped, numbers as written.
  std::string characters;
};

class JsonElements;
class JsonMembers;

/// A view of one value. It is valid as long as its JsonDocument, or until the callback that received it returns.
class JsonValue {
 public:
  JsonValue(const JsonTree* tree, uint32_t node) : tree_(tree), node_(node) {}

  JsonKind kind() const { return node().kind; }
  bool is_null() const { return kind() == JsonKind::kNull; }
  bool is_string() const { return kind() == JsonKind::kString; }
  bool is_array() const { return kind() == JsonKind::kArray; }
  bool is_object() const { return kind() == JsonKind::kObject; }

  /// Nothing where the value is of another kind or does not fit. An integer is digits only (and a sign for
  /// i64): no fraction, no exponent. A double is finite.
  std::optional<bool> try_bool() const;
  std::optional<uint64_t> try_u64() const;
  std::optional<int64_t> try_i64() const;
  std::optional<double> try_double() const;
  std::optional<std::string> try_string() const;
  /// The characters of a string, valid as long as the value.
  std::optional<std::string_view> try_text() const;

  /// The same, but throw an error with the position and the value found.
  bool as_bool() const;
  uint64_t as_u64() const;
  int64_t as_i64() const;
  double as_double() const;
  std::string as_string() const;

  /// Elements of an array, members of an object. Throw on another kind.
  JsonElements elements() const;
  JsonMembers members() const;
  /// Number of elements or members; 0 for a scalar.
  size_t size() const;
  /// The member of that name. `find` gives nothing where there is none or this is no object; `at` throws.
  std::optional<JsonValue> find(std::string_view key) const;
  JsonValue at(std::string_view key) const;

  /// Byte offset in the text.
  size_t position() const { return node().position; }
  /// What was found, for a message: `-3`, `"abc"`, `an array of 2`. Escaped and cut.
  std::string describe() const;

 private:
  const JsonNode& node() const { return tree_->nodes[node_]; }
  [[noreturn]] void fail(const char* expected) const;

  const JsonTree* tree_;
  uint32_t node_;
};

struct JsonMember {
  std::string_view key;
  JsonValue value;
};

class JsonElements {
 public:
  class Iterator {
   public:
    Iterator(const JsonTree* tree, uint32_t node, uint32_t left) : tree_(tree), node_(node), left_(left) {}
    JsonValue operator*() const { return {tree_, node_}; }
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return left_ != other.left_; }

   private:
    const JsonTree* tree_;
    uint32_t node_;
    uint32_t left_;
  };

  JsonElements(const JsonTree* tree, uint32_t first, uint32_t count) : tree_(tree), first_(first), count_(count) {}
  Iterator begin() const { return {tree_, first_, count_}; }
  Iterator end() const { return {tree_, first_, 0}; }

 private:
  const JsonTree* tree_;
  uint32_t first_;
  uint32_t count_;
};

class JsonMembers {
 public:
  class Iterator {
   public:
    Iterator(const JsonTree* tree, uint32_t node, uint32_t left) : tree_(tree), node_(node), left_(left) {}
    JsonMember operator*() const;
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return left_ != other.left_; }

   private:
    const JsonTree* tree_;
    uint32_t node_;
    uint32_t left_;
  };

  JsonMembers(const JsonTree* tree, uint32_t first, uint32_t count) : tree_(tree), first_(first), count_(count) {}
  Iterator begin() const { return {tree_, first_, count_}; }
  Iterator end() const { return {tree_, first_, 0}; }

 private:
  const JsonTree* tree_;
  uint32_t first_;
  uint32_t count_;
};

/// Deepest nesting that is read.
inline constexpr int kJsonMaxDepth = 64;

/// A whole JSON text, read strictly (RFC 8259): well-formed UTF-8, no duplicate keys, no lone surrogates,
/// nothing after the value, at most kJsonMaxDepth deep, no string above 4 MiB.
class JsonDocument {
 public:
  /// Throws an Error of the source's code that names the position. The text is not held.
  static JsonDocument parse(const JsonInput& text, JsonSource source);

  JsonValue root() const { return {tree_.get(), 0}; }

 private:
  explicit JsonDocument(std::unique_ptr<JsonTree> tree) : tree_(std::move(tree)) {}

  std::unique_ptr<JsonTree> tree_;
};

/// Reads a text whose value is an object and holds one member at a time, so that objects may have millions of members.
/// The caller must check that object for duplicate keys. Throws as JsonDocument::parse.
void for_each_json_member(const JsonInput& text, const JsonSource& source,
                          const std::function<void(std::string key, JsonValue value)>& visit);

}  // namespace sida
