#include "checkpoint/switch_tensors.h"

namespace sida {
namespace {

using Shape = std::vector<uint64_t>;
using Visit = std::function<void(const std::string&, const Shape&)>;

class StackVisitor {
 public:
  StackVisitor(const SwitchConfig& config, bool decoder, const Visit& visit)
      : config_(config),
        decoder_(decoder),
        visit_(visit),
        model_(static_cast<uint64_t>(config.d_model)),
        inner_(static_cast<uint64_t>(config.inner_dim())),
        ff_(static_cast<uint64_t>(config.d_ff)) {}

  void visit() {
    const std::string stack = decoder_ ? "decoder" : "encoder";
    const int layers = decoder_ ? config_.num_decoder_layers : config_.num_layers;
    for (int i = 0; i < layers; ++i) {
      const std::string block = stack + ".block." + std::to_string(i) + ".layer.";
      visit_attention(block + "0", "SelfAttention");
      if (i == 0) {
        visit_(block + "0.SelfAttention.relative_attention_bias.weight",
               {static_cast<uint64_t>(config_.relative_attention_num_buckets),
                static_cast<uint64_t>(config_.num_heads)});
      }
      if (decoder_) visit_attention(block + "1", "EncDecAttention");
      const bool sparse = decoder_ ? config_.decoder_sparse(i) : config_.encoder_sparse(i);
      visit_feed_forward(block + (decoder_ ? "2" : "1"), sparse);
    }
    visit_(stack + ".final_layer_norm.weight", {model_});
  }

 private:
  void visit_attention(const std::string& layer, const std::string& kind) {
    visit_(layer + ".layer_norm.weight", {model_});
    const std::string attention = layer + "." + kind;
    for (const char* matrix : {".q", ".k", ".v"}) visit_(attention + matrix + ".weight", {inner_, model_});
    visit_(attention + ".o.weight", {model_, inner_});
  }

  void visit_feed_forward(const std::string& layer, bool sparse) {
    visit_(layer + ".layer_norm.weight", {model_});
    if (!sparse) return visit_expert(layer + ".mlp");
    visit_(layer + ".mlp.router.classifier.weight", {static_cast<uint64_t>(config_.num_experts), model_});
    for (int e = 0; e < config_.num_experts; ++e) {
      visit_expert(layer + ".mlp.experts.expert_" + std::to_string(e));
    }
  }

  void visit_expert(const std::string& name) {
    visit_(name + ".wi.weight", {ff_, model_});
    visit_(name + ".wo.weight", {model_, ff_});
  }

  const SwitchConfig& config_;
  bool decoder_;
  const Visit& visit_;
  uint64_t model_;
  uint64_t inner_;
  uint64_t ff_;
};

}  // namespace

void for_each_switch_tensor(const SwitchConfig& config, const Visit& visit) {
  StackVisitor(config, false, visit).visit();
  StackVisitor(config, true, visit).visit();
}

}  // namespace sida
