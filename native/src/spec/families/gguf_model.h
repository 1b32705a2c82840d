#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"

namespace sida {

/// -1 in 32 bits, which stands for no token.
inline constexpr uint64_t kNoToken = 0xffffffff;

/// What the metadata of a GGUF file says of its model, and the shapes of its tensors. Keys are those behind the
/// architecture's name: "block_count" is that of "llama.block_count". A value of another type, or out of range, throws
/// checkpoint_invalid.
class GgufModel {
 public:
  /// A list is one of numbers or bools.
  using Value = std::variant<bool, uint64_t, int64_t, float, double, std::string, std::vector<double>>;
  using Shapes = std::map<std::string, std::vector<uint64_t>, std::less<>>;

  struct Parts {
    std::string file;                                  ///< names it in errors
    std::map<std::string, Value, std::less<>> values;  ///< by whole keys
    Shapes shapes;                                     ///< rows before columns
    std::vector<uint64_t> end_tokens;                  ///< that end a generation
    std::vector<float> frequency_factors = {};         ///< the tensor "rope_freqs.weight"; empty: none of f32
  };

  /// Throws where there is no "general.architecture".
  explicit GgufModel(Parts parts);

  const std::string& architecture() const { return architecture_; }
  const std::vector<uint64_t>& end_tokens() const { return parts_.end_tokens; }
  const std::vector<float>& frequency_factors() const { return parts_.frequency_factors; }

  /// A whole number; nothing where there is none. A list of equal numbers, one for each layer, counts as one.
  std::optional<uint64_t> count(std::string_view key) const;
  uint64_t need_count(std::string_view key) const;
  /// The inner width of an expert: by its key, by its tensors, or that of the feed-forward network. Files of the first
  /// converters have no key.
  uint64_t expert_width() const;
  /// A number as JSON, with as many digits as its type holds.
  std::optional<std::string> real(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<double>> list(std::string_view key) const;
  /// A whole number by its whole key: "tokenizer.ggml.bos_token_id".
  /// Nothing for -1 in 32 bits, with or without a sign, which stands for no token.
  std::optional<uint64_t> token(std::string_view whole_key) const;
  std::optional<std::string> whole_key_real(std::string_view key) const;

  /// Null where there is no such tensor.
  const std::vector<uint64_t>* shape(std::string_view tensor) const;
  bool has(std::string_view tensor) const { return shape(tensor) != nullptr; }

  /// The error about a key of the architecture, or a whole key that has a dot in front of its last part.
  Error fault(std::string_view key, const std::string& expected, const std::string& found,
              const std::string& hint = "") const;

 private:
  const Value* find(std::string_view key) const;
  std::optional<uint64_t> count_of(const Value* value, std::string_view key) const;
  std::optional<std::string> real_of(const Value* value, std::string_view key) const;
  std::string whole(std::string_view key) const { return architecture_ + "." + std::string(key); }

  Parts parts_;
  std::string architecture_;
};

}  // namespace sida
