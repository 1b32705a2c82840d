#include <vector>

#include "spec/families/gguf_config.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/gpt_oss/gpt_oss.h"

namespace sida {
namespace {

/// A list says for each layer whether it has a window. Without one every other layer has, which configs need not say.
void set_windows(const GgufModel& model, GgufConfig& config) {
  config.set("sliding_window", model.need_count("attention.sliding_window"));
  const auto windows = model.list("attention.sliding_window_pattern");
  if (!windows) {
    const uint64_t every = model.count("attention.sliding_window_pattern").value_or(2);
    if (every == 2) return;
    throw model.fault("attention.sliding_window_pattern", "2, or a list", std::to_string(every));
  }
  if (windows->size() < config.layers()) {
    throw model.fault("attention.sliding_window_pattern", std::to_string(config.layers()) + " bools",
                      std::to_string(windows->size()));
  }
  config.set_layer_types({windows->begin(), windows->begin() + static_cast<ptrdiff_t>(config.layers())});
}

std::string gpt_oss_config(const GgufModel& model) {
  GgufConfig config(model, "gpt_oss");
  config.set_whole_heads();
  config.set_rope("\"truncate\":false");
  config.set("intermediate_size", model.expert_width());
  config.set_flag("attention_bias", model.has("blk.0.attn_q.bias"));
  set_windows(model, config);
  return config.text();
}

}  // namespace

constexpr GgufForm kGptOssGguf{"gpt-oss", nullptr, gpt_oss_config, gguf_source};

}  // namespace sida
