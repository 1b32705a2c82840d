#include "spec/families/gguf_config.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/mixtral/mixtral.h"

namespace sida {
namespace {

std::string mixtral_config(const GgufModel& model) {
  GgufConfig config(model, "mixtral");
  config.set_whole_heads();
  config.set_rope();
  config.set("intermediate_size", model.expert_width());
  const auto window = model.count("attention.sliding_window");
  if (window && *window > 0) config.set("sliding_window", *window);
  return config.text();
}

/// llama.cpp rotates adjacent columns in this architecture, so its converter lets the rows of each head alternate
/// between the first and the second half.
TensorSource mixtral_gguf_source(const ModelSpec& spec, const TensorSlot& slot) {
  TensorSource source = gguf_source(spec, slot);
  if (slot.role == TensorRole::kQuery || slot.role == TensorRole::kKey) {
    source.candidates.front().paired_rows = spec.last().layers[slot.layer].self.head_dim;
  }
  return source;
}

}  // namespace

constexpr GgufForm kMixtralGguf{"llama", nullptr, mixtral_config, mixtral_gguf_source};

}  // namespace sida
