#include "spec/families/gguf_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <type_traits>

#include "core/checkpoint_error.h"

namespace sida {
namespace {

constexpr const char* kArchitecture = "general.architecture";
constexpr double kMostExact = 9007199254740992.0;  // 2^53

template <typename Real>
std::string shortest(Real value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return error == std::errc() ? std::string(text, end) : std::string();
}

std::string describe(const GgufModel::Value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, bool>) return held ? "true" : "false";
        if constexpr (std::is_same_v<Held, std::string>) return "\"" + escape_text(held) + "\"";
        if constexpr (std::is_same_v<Held, std::vector<double>>) return "a list of " + std::to_string(held.size());
        if constexpr (std::is_arithmetic_v<Held> && !std::is_same_v<Held, bool>) return shortest(held);
      },
      value);
}

}  // namespace

GgufModel::GgufModel(Parts parts) : parts_(std::move(parts)) {
  const auto found = parts_.values.find(kArchitecture);
  const bool named = found != parts_.values.end() && std::holds_alternative<std::string>(found->second);
  if (!named) throw fault(kArchitecture, "a text", found == parts_.values.end() ? "none" : describe(found->second));
  architecture_ = std::get<std::string>(found->second);
}

Error GgufModel::fault(std::string_view key, const std::string& expected, const std::string& found,
                       const std::string& hint) const {
  const bool is_whole = parts_.values.contains(key) || key.starts_with("general.") || key.starts_with("tokenizer.");
  const std::string name = is_whole ? std::string(key) : whole(key);
  return checkpoint_error({parts_.file, "", "metadata \"" + escape_text(name) + "\"", expected, found, hint, {}});
}

const GgufModel::Value* GgufModel::find(std::string_view key) const {
  const auto found = parts_.values.find(whole(key));
  return found == parts_.values.end() ? nullptr : &found->second;
}

std::optional<uint64_t> GgufModel::count_of(const Value* value, std::string_view key) const {
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  if (const auto* all = std::get_if<std::vector<double>>(value); all != nullptr && !all->empty()) {
    const double first = all->front();
    const bool equal = std::ranges::all_of(*all, [&](double other) { return other == first; });
    if (equal && first >= 0 && first < kMostExact && first == std::floor(first)) return static_cast<uint64_t>(first);
    throw fault(key, "the same number for all layers", describe(*value));
  }
  throw fault(key, "a whole number", describe(*value));
}

std::optional<std::string> GgufModel::real_of(const Value* value, std::string_view key) const {
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<float>(value); number != nullptr && std::isfinite(*number)) {
    return shortest(*number);
  }
  if (const auto* number = std::get_if<double>(value); number != nullptr && std::isfinite(*number)) {
    return shortest(*number);
  }
  if (const auto* number = std::get_if<uint64_t>(value)) return std::to_string(*number);
  if (const auto* number = std::get_if<int64_t>(value)) return std::to_string(*number);
  throw fault(key, "a number", describe(*value));
}

std::optional<uint64_t> GgufModel::count(std::string_view key) const { return count_of(find(key), key); }

std::optional<uint64_t> GgufModel::token(std::string_view whole_key) const {
  const auto found = parts_.values.find(whole_key);
  if (found == parts_.values.end() || found->second == Value(int64_t{-1})) return std::nullopt;
  const auto token = count_of(&found->second, whole_key);
  return token == kNoToken ? std::nullopt : token;
}

std::optional<std::string> GgufModel::whole_key_real(std::string_view key) const {
  const auto found = parts_.values.find(key);
  return found == parts_.values.end() ? std::nullopt : real_of(&found->second, key);
}

uint64_t GgufModel::need_count(std::string_view key) const {
  if (const auto value = count(key)) return *value;
  throw fault(key, "a whole number", "none");
}

uint64_t GgufModel::expert_width() const {
  const auto own = count("expert_feed_forward_length");
  if (own && *own > 0) return *own;
  for (const auto& [tensor, shape] : parts_.shapes) {
    // (experts, width, columns)
    if (tensor.ends_with(".ffn_gate_exps.weight") && shape.size() == 3) return shape[1];
  }
  return need_count("feed_forward_length");
}

std::optional<std::string> GgufModel::real(std::string_view key) const { return real_of(find(key), key); }

std::optional<bool> GgufModel::flag(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* held = std::get_if<bool>(value)) return *held;
  throw fault(key, "a bool", describe(*value));
}

std::optional<std::string> GgufModel::text(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* held = std::get_if<std::string>(value)) return *held;
  throw fault(key, "a text", describe(*value));
}

std::optional<std::vector<double>> GgufModel::list(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* held = std::get_if<std::vector<double>>(value)) return *held;
  return std::nullopt;
}

const std::vector<uint64_t>* GgufModel::shape(std::string_view tensor) const {
  const auto found = parts_.shapes.find(tensor);
  return found == parts_.shapes.end() ? nullptr : &found->second;
}

}  // namespace sida
