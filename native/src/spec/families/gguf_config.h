#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/families/gguf_model.h"

namespace sida {

/// The text of a config.json that is made of a GGUF file's metadata.
class GgufConfig {
 public:
  /// What all decoder-only families have: sizes, norms, heads, positions, experts and tokens. Throws checkpoint_invalid
  /// naming what is missing or not supported.
  GgufConfig(const GgufModel& model, const char* model_type);

  void set(const char* name, uint64_t value) { add(name, std::to_string(value)); }
  void set(const char* name, const std::vector<uint64_t>& values);
  void set_flag(const char* name, bool value) { add(name, value ? "true" : "false"); }
  /// A text that needs no escapes.
  void set_text(const char* name, std::string_view text) { add(name, "\"" + std::string(text) + "\""); }
  /// JSON; nothing where there is no value.
  void set_real(const char* name, const std::optional<std::string>& json);

  /// `other`: what those layers are that have no full attention.
  void set_layer_types(const std::vector<bool>& others, const char* other = "sliding_attention");

  /// The columns of a head, of its own key or hidden_size / heads.
  uint64_t head_dim() const { return head_dim_; }
  uint64_t layers() const { return layers_; }
  /// Sets head_dim and num_key_value_heads, and refuses values of another width than keys.
  void set_heads();
  /// Sets partial_rotary_factor, such that the rotated columns of a head follow from it.
  void set_rotated_share();
  /// Heads that are not rotated in part, which it refuses.
  void set_whole_heads();
  /// Sets rope_parameters, with one more member where `more` is one, such as `"truncate":false`.
  void set_rope(std::string_view more = "");

  std::string text() const { return "{" + members_ + "}\n"; }

 private:
  void add(const char* name, const std::string& json);
  void set_tokens();

  const GgufModel& model_;
  uint64_t layers_ = 0;
  uint64_t head_dim_ = 0;
  std::string members_;
};

/// The layers whose feed-forward network is dense, by their tensors.
std::vector<uint64_t> dense_gguf_layers(const GgufModel& model, uint64_t layers);

/// The text of a generation_config.json; nothing where the file says nothing about sampling.
std::optional<std::string> gguf_generation_config(const GgufModel& model);

}  // namespace sida
