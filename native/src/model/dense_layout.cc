#include "model/dense_layout.h"

#include "ops/panels.h"

namespace sida {
namespace {

void append(DenseLayout& layout, DenseTensor tensor) {
  const uint64_t bytes = (tensor.bytes + 63) / 64 * 64;
  tensor.offset = layout.bytes;
  layout.bytes += bytes;
  if (tensor.router) layout.router_bytes += bytes;
  layout.tensors.push_back(std::move(tensor));
}

class LayoutBuilder {
 public:
  LayoutBuilder(const SwitchConfig& config, bool bf16) : config_(config), bf16_(bf16) {}

  DenseLayout build() {
    const auto d = static_cast<uint64_t>(config_.d_model);
    const auto vocab = static_cast<uint64_t>(config_.vocab_size);
    if (config_.tie_word_embeddings) {
      panels("shared.weight", vocab, d, bf16_);
    } else {
      for (const char* name :
           {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}) {
        panels(name, vocab, d, bf16_);
      }
    }
    stack("encoder", config_.num_layers, false);
    stack("decoder", config_.num_decoder_layers, true);
    return std::move(layout_);
  }

 private:
  void panels(const std::string& name, uint64_t n, uint64_t k, bool bf16, bool router = false) {
    append(layout_, {name, {n, k}, bf16, true, router, 0, panel_matrix_bytes(n, k, bf16)});
  }

  void rows(const std::string& name, std::vector<uint64_t> shape) {
    uint64_t bytes = 4;
    for (const uint64_t size : shape) bytes *= size;
    append(layout_, {name, std::move(shape), false, false, false, 0, bytes});
  }

  void attention(const std::string& prefix, const std::string& kind) {
    const auto d = static_cast<uint64_t>(config_.d_model);
    const auto inner = static_cast<uint64_t>(config_.num_heads) * static_cast<uint64_t>(config_.d_kv);
    rows(prefix + "layer_norm.weight", {d});
    for (const char* name : {"q", "k", "v"}) panels(prefix + kind + "." + name + ".weight", inner, d, bf16_);
    panels(prefix + kind + ".o.weight", d, inner, bf16_);
  }

  void stack(const std::string& name, int layers, bool decoder) {
    const auto d = static_cast<uint64_t>(config_.d_model);
    const auto ff = static_cast<uint64_t>(config_.d_ff);
    rows(name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
         {static_cast<uint64_t>(config_.relative_attention_num_buckets),
          static_cast<uint64_t>(config_.num_heads)});
    for (int i = 0; i < layers; ++i) {
      const std::string block = name + ".block." + std::to_string(i) + ".layer.";
      attention(block + "0.", "SelfAttention");
      if (decoder) attention(block + "1.", "EncDecAttention");
      const std::string mlp = block + (decoder ? "2." : "1.");
      rows(mlp + "layer_norm.weight", {d});
      if (decoder ? config_.decoder_sparse(i) : config_.encoder_sparse(i)) {
        panels(mlp + "mlp.router.classifier.weight", static_cast<uint64_t>(config_.num_experts), d, false,
               true);
      } else {
        panels(mlp + "mlp.wi.weight", ff, d, bf16_);
        panels(mlp + "mlp.wo.weight", d, ff, bf16_);
      }
    }
    rows(name + ".final_layer_norm.weight", {d});
  }

  const SwitchConfig& config_;
  bool bf16_;
  DenseLayout layout_;
};

}  // namespace

DenseLayout make_dense_layout(const SwitchConfig& config, bool bf16) {
  return LayoutBuilder(config, bf16).build();
}

DenseLayout without_routers(const DenseLayout& layout) {
  DenseLayout kept;
  for (const DenseTensor& tensor : layout.tensors) {
    if (!tensor.router) append(kept, tensor);
  }
  return kept;
}

}  // namespace sida
