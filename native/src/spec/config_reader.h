#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace sida {

/// What errors call fields of a config that were made of something else, by the fields' whole names.
using FieldNames = std::map<std::string, std::string, std::less<>>;

/// Fields of a config's JSON object. A field that is missing or null takes the fallback. A value that is out of range
/// or of another type throws checkpoint_invalid, naming file and field. The document must outlive the reader.
class ConfigReader {
 public:
  /// `file` names it in errors, and `names`, which must outlive the reader, its fields. Throws checkpoint_invalid where
  /// `root` is no object.
  ConfigReader(JsonValue root, std::string file, const FieldNames* names = nullptr);

  /// Nothing where the field is missing or null.
  std::optional<JsonValue> field(const char* name) const;
  bool is_null(const char* name) const;
  /// The first of these names that the config has; the first of all where it has none.
  const char* alias(std::initializer_list<const char*> names) const;

  int integer(const char* name, int least, int most, int fallback) const;
  double real(const char* name, double least, double most, double fallback) const;
  bool boolean(const char* name, bool fallback) const;
  /// A list of at most `count` whole numbers; nothing where the field is missing or null.
  std::optional<std::vector<int>> integers(const char* name, int least, int most, size_t count) const;
  /// The place of a text among `known`; nothing where the field is missing or null.
  std::optional<size_t> choice(const char* name, std::initializer_list<const char*> known) const;
  /// A list of at most `count` texts, each by its place among `known`; nothing where the field is missing or null.
  std::optional<std::vector<size_t>> choices(const char* name, std::initializer_list<const char*> known,
                                             size_t count) const;
  /// A token id; nothing where it is null.
  std::optional<int32_t> token(const char* name, size_t vocab, std::optional<int32_t> fallback) const;
  /// A token id or a list of them; none where it is null.
  std::vector<int32_t> tokens(const char* name, size_t vocab, std::vector<int32_t> fallback) const;
  /// A nested object, whose fields are named `name.field` in errors.
  std::optional<ConfigReader> object(const char* name) const;

  /// Throws unless the field's text is `only`; `hint` says why. A missing field passes where transformers would default
  /// to that text.
  void require_text(const char* name, const char* only, const char* hint) const;
  void require_false(const char* name, const char* hint) const;

  const std::string& file() const { return file_; }
  /// The error about a field.
  Error fault(const char* name, const std::string& expected, const std::string& found, const std::string& hint,
              std::map<std::string, double> numbers = {}) const;

 private:
  ConfigReader(JsonValue root, std::string file, const FieldNames* names, std::string prefix)
      : root_(root), file_(std::move(file)), names_(names), prefix_(std::move(prefix)) {}
  size_t place(const char* name, JsonValue value, std::initializer_list<const char*> known) const;
  int whole_number(const char* name, JsonValue value, int least, int most) const;
  std::optional<JsonValue> list(const char* name, size_t count) const;
  int32_t token_id(const char* name, JsonValue value, size_t vocab) const;

  JsonValue root_;
  std::string file_;
  const FieldNames* names_;
  std::string prefix_;
};

}  // namespace sida
