#include "spec/config_reader.h"

#include "core/checkpoint_error.h"

namespace sida {
namespace {

/// More end tokens than any model has.
constexpr size_t kMaxTokenList = 256;

}  // namespace

ConfigReader::ConfigReader(JsonValue root, std::string file, const FieldNames* names)
    : ConfigReader(root, std::move(file), names, "") {
  if (!root_.is_object()) {
    throw checkpoint_error({file_, "", "not a config", "an object", root_.describe(), "", {}});
  }
}

std::optional<JsonValue> ConfigReader::field(const char* name) const {
  const auto value = root_.find(name);
  return value && !value->is_null() ? value : std::nullopt;
}

bool ConfigReader::is_null(const char* name) const {
  const auto value = root_.find(name);
  return value && value->is_null();
}

const char* ConfigReader::alias(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (field(name)) return name;
  }
  return *names.begin();
}

int ConfigReader::integer(const char* name, int least, int most, int fallback) const {
  const auto value = field(name);
  return value ? whole_number(name, *value, least, most) : fallback;
}

int ConfigReader::whole_number(const char* name, JsonValue value, int least, int most) const {
  const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  const auto number = value.try_i64();
  if (!number) throw fault(name, expected, value.describe(), "");
  if (*number < least || *number > most) {
    throw fault(name, expected, value.describe(), "",
                {{"least", least}, {"most", most}, {"found", static_cast<double>(*number)}});
  }
  return static_cast<int>(*number);
}

std::optional<JsonValue> ConfigReader::list(const char* name, size_t count) const {
  const auto value = field(name);
  if (!value) return std::nullopt;
  if (value->is_array() && value->size() <= count) return value;
  throw fault(name, "a list of at most " + std::to_string(count), value->describe(), "");
}

std::optional<std::vector<int>> ConfigReader::integers(const char* name, int least, int most, size_t count) const {
  const auto value = list(name, count);
  if (!value) return std::nullopt;
  std::vector<int> numbers;
  for (const JsonValue element : value->elements()) numbers.push_back(whole_number(name, element, least, most));
  return numbers;
}

size_t ConfigReader::place(const char* name, JsonValue value, std::initializer_list<const char*> known) const {
  std::string expected;
  for (const char* const* one = known.begin(); one != known.end(); ++one) {
    if (value.try_string() == *one) return static_cast<size_t>(one - known.begin());
    expected += (expected.empty() ? "\"" : " or \"") + std::string(*one) + "\"";
  }
  throw fault(name, expected, value.describe(), "");
}

std::optional<size_t> ConfigReader::choice(const char* name, std::initializer_list<const char*> known) const {
  const auto value = field(name);
  return value ? std::optional(place(name, *value, known)) : std::nullopt;
}

std::optional<std::vector<size_t>> ConfigReader::choices(const char* name, std::initializer_list<const char*> known,
                                                         size_t count) const {
  const auto value = list(name, count);
  if (!value) return std::nullopt;
  std::vector<size_t> chosen;
  for (const JsonValue element : value->elements()) chosen.push_back(place(name, element, known));
  return chosen;
}

double ConfigReader::real(const char* name, double least, double most, double fallback) const {
  const auto value = field(name);
  if (!value) return fallback;
  const auto number = value->try_double();
  if (number && *number >= least && *number <= most) return *number;
  throw fault(name, "a number from " + std::to_string(least) + " to " + std::to_string(most), value->describe(), "");
}

bool ConfigReader::boolean(const char* name, bool fallback) const {
  const auto value = field(name);
  if (!value) return fallback;
  if (const auto flag = value->try_bool()) return *flag;
  throw fault(name, "true or false", value->describe(), "");
}

int32_t ConfigReader::token_id(const char* name, JsonValue value, size_t vocab) const {
  const std::string expected = "a whole number from 0 to " + std::to_string(vocab - 1);
  const auto id = value.try_i64();
  if (!id) throw fault(name, expected, value.describe(), "");
  if (*id >= 0 && static_cast<uint64_t>(*id) < vocab) return static_cast<int32_t>(*id);
  throw fault(name, expected, value.describe(), "",
              {{"least", 0}, {"most", static_cast<double>(vocab - 1)}, {"found", static_cast<double>(*id)}});
}

std::optional<int32_t> ConfigReader::token(const char* name, size_t vocab, std::optional<int32_t> fallback) const {
  if (is_null(name)) return std::nullopt;
  const auto value = field(name);
  return value ? token_id(name, *value, vocab) : fallback;
}

std::vector<int32_t> ConfigReader::tokens(const char* name, size_t vocab, std::vector<int32_t> fallback) const {
  if (is_null(name)) return {};
  const auto value = field(name);
  if (!value) return fallback;
  if (!value->is_array()) return {token_id(name, *value, vocab)};
  if (value->size() > kMaxTokenList) {
    throw fault(name, "at most " + std::to_string(kMaxTokenList) + " token ids", value->describe(), "");
  }
  std::vector<int32_t> ids;
  for (const JsonValue element : value->elements()) ids.push_back(token_id(name, element, vocab));
  return ids;
}

std::optional<ConfigReader> ConfigReader::object(const char* name) const {
  const auto value = field(name);
  if (!value) return std::nullopt;
  if (!value->is_object()) throw fault(name, "an object", value->describe(), "");
  return ConfigReader(*value, file_, names_, prefix_ + name + ".");
}

void ConfigReader::require_text(const char* name, const char* only, const char* hint) const {
  const auto value = field(name);
  if (!value || value->try_string() == only) return;
  throw fault(name, "\"" + std::string(only) + "\"", value->describe(), hint);
}

void ConfigReader::require_false(const char* name, const char* hint) const {
  if (boolean(name, false)) throw fault(name, "false", "true", hint);
}

Error ConfigReader::fault(const char* name, const std::string& expected, const std::string& found,
                          const std::string& hint, std::map<std::string, double> numbers) const {
  std::string what = "\"" + prefix_ + name + "\"";
  if (names_ != nullptr) {
    if (const auto key = names_->find(prefix_ + name); key != names_->end()) what = key->second;
  }
  return checkpoint_error({file_, "", what, expected, found, hint, std::move(numbers)});
}

}  // namespace sida
