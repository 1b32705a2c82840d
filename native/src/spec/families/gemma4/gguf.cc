#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "spec/families/config_limits.h"
#include "spec/families/gemma4/gemma4.h"
#include "spec/families/gguf_config.h"
#include "spec/families/gguf_tensors.h"

namespace sida {
namespace {

/// Factors of frequencies from here on stand for pairs that are not turned.
constexpr float kUnturned = 1e20f;

std::vector<bool> windowed_layers(const GgufModel& model, uint64_t layers) {
  const char* const key = "attention.sliding_window_pattern";
  const auto list = model.list(key);
  if (!list || list->size() < layers) {
    throw model.fault(key, std::to_string(layers) + " bools", list ? std::to_string(list->size()) : "none");
  }
  std::vector<bool> windowed(list->begin(), list->begin() + static_cast<ptrdiff_t>(layers));
  if (windowed.back()) throw model.fault(key, "a last layer without a window", "one with a window");
  return windowed;
}

/// The number of KV heads of the layers that have a window, or of the others; nothing where there are none.
std::optional<uint64_t> kv_heads_of(const GgufModel& model, const std::vector<bool>& windowed, bool window) {
  const char* const key = "attention.head_count_kv";
  const auto list = model.list(key);
  if (!list) return model.count(key).value_or(model.need_count("attention.head_count"));
  std::optional<uint64_t> found;
  for (size_t layer = 0; layer < windowed.size(); ++layer) {
    if (windowed[layer] != window) continue;
    const double heads = layer < list->size() ? (*list)[layer] : 0;
    if (!(heads >= 1 && heads <= kMaxWidth) || heads != std::floor(heads) || found.value_or(heads) != heads) {
      throw model.fault(key, "the same whole number for all layers with a window, and for all others",
                        std::to_string(heads) + " for layer " + std::to_string(layer));
    }
    found = static_cast<uint64_t>(heads);
  }
  return found;
}

uint64_t head_dim_of(const GgufModel& model, const char* key_length, const char* value_length, const char* rotary) {
  const uint64_t head_dim = model.need_count(key_length);
  for (const char* same : {value_length, rotary}) {
    const uint64_t found = model.count(same).value_or(head_dim);
    if (found != head_dim)
      throw model.fault(same, std::to_string(head_dim) + ", the width of a key", std::to_string(found));
  }
  return head_dim;
}

/// The share of a head's pairs that are turned in layers without a window: a file has a factor for each frequency, 1 or
/// one that leaves no turn.
std::string turned_share(const GgufModel& model, uint64_t head_dim) {
  const std::vector<float>& factors = model.frequency_factors();
  const auto turned = static_cast<size_t>(std::find_if(factors.begin(), factors.end(), [](float f) { return f != 1; }) -
                                          factors.begin());
  const bool rest = std::all_of(factors.begin() + static_cast<ptrdiff_t>(turned), factors.end(),
                                [](float f) { return f >= kUnturned; });
  if (factors.size() != head_dim / 2 || !rest) {
    throw model.fault(
        "rope.dimension_count",
        "a tensor \"rope_freqs.weight\" of " + std::to_string(head_dim / 2) + " numbers in F32, each 1 or 1e30",
        factors.empty() ? "none in F32" : std::to_string(factors.size()) + " numbers");
  }
  char text[32];
  double share = static_cast<double>(turned) / static_cast<double>(factors.size());
  if (static_cast<size_t>(share * static_cast<double>(head_dim) / 2) < turned) share = std::nextafter(share, 2.0);
  const auto [end, error] = std::to_chars(text, text + sizeof(text), share);
  return {text, end};
}

void refuse_scaling(const GgufModel& model) {
  const std::string type = model.text("rope.scaling.type").value_or("none");
  if (type != "none") {
    throw model.fault("rope.scaling.type", "\"none\"", "\"" + escape_text(type) + "\"",
                      "other rotary positions are not supported");
  }
  const auto factor = model.real("rope.scaling.factor");
  if (factor && *factor != "0" && *factor != "1") throw model.fault("rope.scaling.factor", "1", *factor);
}

void set_positions(const GgufModel& model, uint64_t full_head_dim, GgufConfig& config) {
  refuse_scaling(model);
  const auto kind = [&](const char* name, const char* key, const std::string& more) {
    const auto theta = model.real(key);
    if (!theta) throw model.fault(key, "a number", "none");
    return std::string("\"") + name + "\":{\"rope_theta\":" + *theta + more + "}";
  };
  const std::string part =
      ",\"rope_type\":\"proportional\",\"partial_rotary_factor\":" + turned_share(model, full_head_dim);
  config.set_real("rope_parameters", "{" + kind("sliding_attention", "rope.freq_base_swa", "") + "," +
                                         kind("full_attention", "rope.freq_base", part) + "}");
}

std::string gemma4_config(const GgufModel& model) {
  GgufConfig config(model, "gemma4");
  const std::vector<bool> windowed = windowed_layers(model, config.layers());
  config.set_layer_types(windowed);
  config.set("sliding_window", model.need_count("attention.sliding_window"));
  config.set("head_dim",
             head_dim_of(model, "attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"));
  const uint64_t full = head_dim_of(model, "attention.key_length", "attention.value_length", "rope.dimension_count");
  config.set("global_head_dim", full);
  set_positions(model, full, config);

  const auto own = kv_heads_of(model, windowed, true), wide = kv_heads_of(model, windowed, false);
  const bool keys_alone = !model.has("blk." + std::to_string(config.layers() - 1) + ".attn_v.weight");
  if (!keys_alone && own && *own != *wide) {
    throw model.fault("attention.head_count_kv", std::to_string(*own) + " for all layers", std::to_string(*wide),
                      "layers with values of their own have the same heads");
  }
  config.set("num_key_value_heads", own.value_or(*wide));
  config.set("num_global_key_value_heads", *wide);
  config.set_flag("attention_k_eq_v", keys_alone);

  config.set_flag("enable_moe_block", true);
  config.set("moe_intermediate_size", model.expert_width());
  config.set("intermediate_size", model.need_count("feed_forward_length"));
  config.set("hidden_size_per_layer_input", model.count("embedding_length_per_layer_input").value_or(0));
  config.set("num_kv_shared_layers", model.count("attention.shared_kv_layers").value_or(0));
  config.set_real("final_logit_softcapping", model.real("final_logit_softcapping"));
  return config.text();
}

/// Null for a tensor that has the name of other families.
const char* gemma4_gguf_name(TensorRole role) {
  switch (role) {
    case TensorRole::kAttentionPostNorm:
      return "post_attention_norm.weight";
    case TensorRole::kFeedForwardNorm:
      return "ffn_norm.weight";
    case TensorRole::kFeedForwardPostNorm:
      return "post_ffw_norm.weight";
    case TensorRole::kSharedPostNorm:
      return "post_ffw_norm_1.weight";
    case TensorRole::kExpertsNorm:
      return "pre_ffw_norm_2.weight";
    case TensorRole::kExpertsPostNorm:
      return "post_ffw_norm_2.weight";
    case TensorRole::kLayerScale:
      return "layer_output_scale.weight";
    case TensorRole::kRouterInputScale:
      return "ffn_gate_inp.scale";
    case TensorRole::kExpertFactors:
      return "ffn_down_exps.scale";
    case TensorRole::kSharedGate:
      return "ffn_gate.weight";
    case TensorRole::kSharedUp:
      return "ffn_up.weight";
    case TensorRole::kSharedDown:
      return "ffn_down.weight";
    default:
      return nullptr;
  }
}

TensorSource gemma4_gguf_source(const ModelSpec& spec, const TensorSlot& slot) {
  const char* name = gemma4_gguf_name(slot.role);
  if (name == nullptr) return gguf_source(spec, slot);
  return {{{"blk." + std::to_string(slot.layer) + "." + name}}};
}

}  // namespace

constexpr GgufForm kGemma4Gguf{"gemma4", nullptr, gemma4_config, gemma4_gguf_source};

}  // namespace sida
