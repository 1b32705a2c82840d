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
  LayoutBuilder(const SwitchConfig& config, WeightFormat format) : config_(config), format_(format) {}

  DenseLayout build() {
    const auto d = static_cast<uint64_t>(config_.d_model);
    const auto vocab = static_cast<uint64_t>(config_.vocab_size);
    if (config_.tie_word_embeddings) {
      panels("shared.weight", vocab, d, format_);
    } else {
      for (const char* name :
           {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}) {
        panels(name, vocab, d, format_);
      }
    }
    stack("encoder", config_.num_layers, false);
    stack("decoder", config_.num_decoder_layers, true);
    layout_.format = format_;
    return std::move(layout_);
  }

 private:
  void panels(const std::string& name, uint64_t n, uint64_t k, WeightFormat format, bool router = false) {
    append(layout_, {name, {n, k}, format, true, router, 0, panel_matrix_bytes(n, k, format)});
  }

  void rows(const std::string& name, std::vector<uint64_t> shape) {
    uint64_t bytes = 4;
    for (const uint64_t size : shape) bytes *= size;
    append(layout_, {name, std::move(shape), kF32Format, false, false, 0, bytes});
  }

  void attention(const std::string& prefix, const std::string& kind) {
    const auto d = static_cast<uint64_t>(config_.d_model);
    const auto inner = static_cast<uint64_t>(config_.num_heads) * static_cast<uint64_t>(config_.d_kv);
    rows(prefix + "layer_norm.weight", {d});
    for (const char* name : {"q", "k", "v"})
      panels(prefix + kind + "." + name + ".weight", inner, d, format_);
    panels(prefix + kind + ".o.weight", d, inner, format_);
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
        panels(mlp + "mlp.router.classifier.weight", static_cast<uint64_t>(config_.num_experts), d,
               kF32Format, true);
      } else {
        panels(mlp + "mlp.wi.weight", ff, d, format_);
        panels(mlp + "mlp.wo.weight", d, ff, format_);
      }
    }
    rows(name + ".final_layer_norm.weight", {d});
  }

  const SwitchConfig& config_;
  WeightFormat format_;
  DenseLayout layout_;
};

}  // namespace

DenseLayout make_dense_layout(const SwitchConfig& config, WeightFormat format) {
  return LayoutBuilder(config, format).build();
}

DenseLayout without_routers(const DenseLayout& layout) {
  DenseLayout kept;
  kept.format = layout.format;
  for (const DenseTensor& tensor : layout.tensors) {
    if (!tensor.router) append(kept, tensor);
  }
  return kept;
}

}  // namespace sida
