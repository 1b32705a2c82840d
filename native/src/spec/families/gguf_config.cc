#include "spec/families/gguf_config.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "spec/families/config_limits.h"

namespace sida {
namespace {

std::string member(std::string_view name, std::string_view json) {
  return "\"" + std::string(name) + "\":" + std::string(json);
}

double number(const std::string& json) {
  double value = 0;
  std::from_chars(json.data(), json.data() + json.size(), value);
  return value;
}

/// Ten times a number of 32 bits, with as many digits: 0.707 where the file has 0.0707.
std::string ten_times(const std::string& json) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), static_cast<float>(10 * number(json)));
  return {text, end};
}

bool is_zero(const std::string& json) { return number(json) == 0; }

/// Refuses what llama.cpp would do with the positions and no config can say.
void refuse_other_scaling(const GgufModel& model, bool yarn) {
  const auto attention = model.real("rope.scaling.attn_factor");
  if (attention && number(*attention) != 1) {
    throw model.fault("rope.scaling.attn_factor", "1", *attention, "such rotary positions are not supported");
  }
  // The share of YaRN's ramp; a negative one stands for the default.
  const double whole = yarn ? 1 : 0;
  const auto ramp = model.real("rope.scaling.yarn_ext_factor");
  if (ramp && number(*ramp) >= 0 && number(*ramp) != whole) {
    throw model.fault("rope.scaling.yarn_ext_factor", yarn ? "1" : "0, without YaRN", *ramp,
                      "such rotary positions are not supported");
  }
}

/// The members of rope_parameters that the scaling of a file's positions has.
std::string scaling_members(const GgufModel& model) {
  const std::string type = model.text("rope.scaling.type").value_or("linear");
  if (type != "none" && type != "linear" && type != "yarn") {
    throw model.fault("rope.scaling.type", "\"none\", \"linear\" or \"yarn\"", "\"" + escape_text(type) + "\"",
                      "other rotary positions are not supported");
  }
  refuse_other_scaling(model, type == "yarn");
  const auto own = model.real("rope.scaling.factor");
  const auto given = own ? own : model.real("rope.scale_linear");
  const std::string factor = given.value_or("0");
  if (type == "none" || (type == "linear" && is_zero(factor))) return member("rope_type", "\"default\"");
  if (is_zero(factor)) {
    throw model.fault("rope.scaling.factor", "the factor of YaRN, a number from 1 on", given.value_or("none"));
  }
  std::string text = member("rope_type", "\"" + type + "\"") + "," + member("factor", factor);
  const auto add = [&](const char* name, const std::optional<std::string>& json) {
    if (json) text += "," + member(name, *json);
  };
  if (type == "linear") return text;
  add("original_max_position_embeddings", model.real("rope.scaling.original_context_length"));
  add("beta_fast", model.real("rope.scaling.yarn_beta_fast"));
  add("beta_slow", model.real("rope.scaling.yarn_beta_slow"));
  if (const auto multiplier = model.real("rope.scaling.yarn_log_multiplier"); multiplier && !is_zero(*multiplier)) {
    // The file has mscale_all_dim / 10; models that have one have the same mscale.
    add("mscale", ten_times(*multiplier));
    add("mscale_all_dim", ten_times(*multiplier));
  } else {
    add("attention_factor", model.real("rope.scaling.yarn_attn_factor"));
  }
  return text;
}

void refuse_frequency_factors(const GgufModel& model) {
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (!model.has(name)) continue;
    throw model.fault("rope.scaling.type", "no factors of single frequencies",
                      "the tensor \"" + std::string(name) + "\"", "such rotary positions are not supported");
  }
}

}  // namespace

GgufConfig::GgufConfig(const GgufModel& model, const char* model_type) : model_(model) {
  set_text("model_type", model_type);
  const std::vector<uint64_t>* embedding = model.shape("token_embd.weight");
  if (embedding == nullptr || embedding->size() != 2) {
    throw model.fault("vocab_size", "a tensor \"token_embd.weight\" with a row for each token",
                      embedding == nullptr ? "none" : std::to_string(embedding->size()) + " dimensions");
  }
  set("vocab_size", embedding->front());
  const uint64_t width = model.need_count("embedding_length");
  set("hidden_size", width);
  const uint64_t blocks = model.need_count("block_count");
  const uint64_t extra = model.count("nextn_predict_layers").value_or(0);
  if (extra >= blocks || blocks > kMaxLayers) {
    throw model.fault("block_count", "a number from " + std::to_string(extra + 1) + " to " + std::to_string(kMaxLayers),
                      std::to_string(blocks));
  }
  layers_ = blocks - extra;
  set("num_hidden_layers", layers_);
  set("num_nextn_predict_layers", extra);
  const uint64_t heads = model.need_count("attention.head_count");
  if (heads == 0) throw model.fault("attention.head_count", "one or more", "0");
  set("num_attention_heads", heads);
  head_dim_ = model.count("attention.key_length").value_or(width / heads);
  set_real("rms_norm_eps", model.real("attention.layer_norm_rms_epsilon"));
  set("max_position_embeddings", model.need_count("context_length"));
  const auto experts = model.count("expert_count");
  if (!experts || *experts == 0) {
    throw model.fault("expert_count", "one or more", experts ? "0" : "none",
                      "models without experts are not supported");
  }
  set("num_experts", *experts);
  set("num_experts_per_tok", model.need_count("expert_used_count"));
  set_flag("tie_word_embeddings", !model.has("output.weight"));
  set_tokens();
}

void GgufConfig::set_tokens() {
  if (const auto begin = model_.token("tokenizer.ggml.bos_token_id")) set("bos_token_id", *begin);
  set("eos_token_id", model_.end_tokens());
  if (const auto pad = model_.token("tokenizer.ggml.padding_token_id")) {
    set("pad_token_id", *pad);
  } else {
    add("pad_token_id", "null");
  }
}

void GgufConfig::set(const char* name, const std::vector<uint64_t>& values) {
  std::string text;
  for (const uint64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  add(name, "[" + text + "]");
}

void GgufConfig::set_layer_types(const std::vector<bool>& others, const char* other) {
  std::string text;
  for (const bool is_other : others) {
    text += std::string(text.empty() ? "\"" : ",\"") + (is_other ? other : "full_attention") + "\"";
  }
  add("layer_types", "[" + text + "]");
}

void GgufConfig::set_real(const char* name, const std::optional<std::string>& json) {
  if (json) add(name, *json);
}

void GgufConfig::set_heads() {
  const uint64_t values = model_.count("attention.value_length").value_or(head_dim_);
  if (values != head_dim_) {
    throw model_.fault("attention.value_length", std::to_string(head_dim_) + ", the width of a key",
                       std::to_string(values));
  }
  set("head_dim", head_dim_);
  set("num_key_value_heads",
      model_.count("attention.head_count_kv").value_or(model_.need_count("attention.head_count")));
}

void GgufConfig::set_rotated_share() {
  const uint64_t rotary = model_.count("rope.dimension_count").value_or(head_dim_);
  if (rotary == 0 || rotary > head_dim_) {
    throw model_.fault("rope.dimension_count", "a number from 1 to " + std::to_string(head_dim_),
                       std::to_string(rotary));
  }
  double share = static_cast<double>(rotary) / static_cast<double>(head_dim_);
  if (static_cast<uint64_t>(static_cast<double>(head_dim_) * share) < rotary) share = std::nextafter(share, 2.0);
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), share);
  add("partial_rotary_factor", {text, end});
}

void GgufConfig::set_whole_heads() {
  set_heads();
  const uint64_t rotary = model_.count("rope.dimension_count").value_or(head_dim_);
  if (rotary == head_dim_) return;
  throw model_.fault("rope.dimension_count", std::to_string(head_dim_) + ", the width of a head",
                     std::to_string(rotary), "heads are rotated as a whole");
}

void GgufConfig::set_rope(std::string_view more) {
  refuse_frequency_factors(model_);
  std::string rope = scaling_members(model_);
  // A family's own base is that of its config.json. Files leave out what llama.cpp has for all.
  rope += "," + member("rope_theta", model_.real("rope.freq_base").value_or("10000"));
  if (!more.empty()) rope += "," + std::string(more);
  add("rope_parameters", "{" + rope + "}");
}

void GgufConfig::add(const char* name, const std::string& json) {
  members_ += (members_.empty() ? "" : ",") + member(name, json);
}

std::vector<uint64_t> dense_gguf_layers(const GgufModel& model, uint64_t layers) {
  std::vector<uint64_t> dense;
  for (uint64_t layer = 0; layer < layers; ++layer) {
    if (!model.has("blk." + std::to_string(layer) + ".ffn_gate_inp.weight")) dense.push_back(layer);
  }
  return dense;
}

std::optional<std::string> gguf_generation_config(const GgufModel& model) {
  constexpr std::pair<const char*, const char*> kSampling[] = {{"general.sampling.temp", "temperature"},
                                                               {"general.sampling.top_k", "top_k"},
                                                               {"general.sampling.top_p", "top_p"},
                                                               {"general.sampling.min_p", "min_p"}};
  std::string text;
  for (const auto& [key, name] : kSampling) {
    const auto value = model.whole_key_real(key);
    if (value) text += (text.empty() ? "" : ",") + member(name, *value);
  }
  if (text.empty()) return std::nullopt;
  return "{" + text + "}\n";
}

}  // namespace sida
