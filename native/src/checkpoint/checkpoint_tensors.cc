// The half of Checkpoint that knows which tensors a Switch model needs.
#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_error.h"
#include "checkpoint/switch_tensors.h"

namespace sida {
namespace {

constexpr const char* kShared = "shared.weight";
constexpr const char* kEncoder = "encoder.embed_tokens.weight";
constexpr const char* kDecoder = "decoder.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kOtherModel = "config.json and the weights are of different models";

// Tensors of the stacks, which the config must account for. Old T5 code wrote one that no model uses.
bool is_of_stack(const std::string& name) {
  if (name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight") return false;
  return name.starts_with("encoder.block.") || name.starts_with("decoder.block.");
}

std::vector<uint64_t> embedding_shape(const SwitchConfig& config) {
  return {static_cast<uint64_t>(config.vocab_size), static_cast<uint64_t>(config.d_model)};
}

// Names that the embedding of a stack may have, best first.
std::vector<const char*> embedding_names(const SwitchConfig& config, const char* own) {
  if (config.tie_word_embeddings) return {kShared, kEncoder, kDecoder, kHead};
  return {own, kShared};
}

std::vector<const char*> head_names(const SwitchConfig& config) {
  return config.tie_word_embeddings ? embedding_names(config, kHead) : std::vector<const char*>{kHead};
}

}  // namespace

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto before = [](const TensorInfo& tensor, std::string_view other) { return tensor.name < other; };
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name, before);
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

const TensorInfo& Checkpoint::require(std::string_view name, const std::vector<uint64_t>& shape) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) {
    throw checkpoint_error({file_of(nullptr),
                            name,
                            "missing tensor",
                            shape_text(shape),
                            "none",
                            std::string(kOtherModel) + ", or a file is incomplete",
                            {}});
  }
  if (tensor->shape != shape) {
    std::map<std::string, double> numbers;
    for (size_t i = 0; i < std::min(shape.size(), tensor->shape.size()); ++i) {
      if (shape[i] != tensor->shape[i]) {
        numbers = expected_found(shape[i], tensor->shape[i]);
        break;
      }
    }
    throw checkpoint_error({file_of(tensor), name, "shape", shape_text(shape), shape_text(tensor->shape),
                            kOtherModel, std::move(numbers)});
  }
  if (!is_float(tensor->dtype)) {
    throw checkpoint_error({file_of(tensor),
                            name,
                            "dtype",
                            "F32, BF16 or F16",
                            dtype_name(tensor->dtype),
                            "quantised checkpoints are not supported",
                            {}});
  }
  return *tensor;
}

const TensorInfo& Checkpoint::require_any(const std::vector<const char*>& names,
                                          const std::vector<uint64_t>& shape) const {
  for (const char* name : names) {
    if (find(name) != nullptr) return require(name, shape);
  }
  return require(names.front(), shape);
}

const TensorInfo& Checkpoint::encoder_embedding() const {
  return require_any(embedding_names(config_, kEncoder), embedding_shape(config_));
}

const TensorInfo& Checkpoint::decoder_embedding() const {
  return require_any(embedding_names(config_, kDecoder), embedding_shape(config_));
}

const TensorInfo& Checkpoint::head() const {
  return require_any(head_names(config_), embedding_shape(config_));
}

void Checkpoint::check_tensors(const SwitchConfig& config) const {
  const std::vector<uint64_t> shape = embedding_shape(config);
  require_any(embedding_names(config, kEncoder), shape);
  require_any(embedding_names(config, kDecoder), shape);
  require_any(head_names(config), shape);
  // Aliases that are present are held to the shape, though not read.
  for (const char* name : {kShared, kEncoder, kDecoder, kHead}) {
    if (find(name) != nullptr) require(name, shape);
  }
  std::vector<bool> known(tensors_.size());
  for_each_switch_tensor(config, [&](const std::string& name, const std::vector<uint64_t>& expected) {
    known[static_cast<size_t>(&require(name, expected) - tensors_.data())] = true;
  });
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (known[i] || !is_of_stack(tensors_[i].name)) continue;
    throw checkpoint_error({file_of(&tensors_[i]),
                            tensors_[i].name,
                            "not of the model in config.json",
                            std::to_string(config.num_layers) + " encoder layers, " +
                                std::to_string(config.num_decoder_layers) + " decoder layers and " +
                                std::to_string(config.num_experts) + " experts",
                            "another tensor",
                            kOtherModel,
                            {}});
  }
}

}  // namespace sida
