#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sida {

// A Switch Transformers model as its Hugging Face config.json describes it. Every field lies in a range such
// that the bytes of all tensors together fit 63 bits.
struct SwitchConfig {
  int vocab_size = 32128;
  int d_model = 768;
  int d_kv = 64;
  int d_ff = 2048;
  int num_heads = 12;
  // Encoder layers.
  int num_layers = 12;
  int num_decoder_layers = 12;
  int num_sparse_encoder_layers = 3;
  int num_sparse_decoder_layers = 3;
  // A layer is sparse where `layer % step == 1`, all are where step is 1, none where it is 0.
  int encoder_sparse_step = 4;
  int decoder_sparse_step = 4;
  int num_experts = 8;
  int expert_capacity = 64;
  int relative_attention_num_buckets = 32;
  int relative_attention_max_distance = 128;
  float layer_norm_epsilon = 1e-6f;
  bool tie_word_embeddings = true;
  int decoder_start_token_id = 0;
  // -1 where the config says null: generation then ends only at its length limit.
  int eos_token_id = 1;
  // -1 where the config says null.
  int pad_token_id = 0;

  // Width of the attention heads together.
  int inner_dim() const { return num_heads * d_kv; }
  bool encoder_sparse(int layer) const;
  bool decoder_sparse(int layer) const;
  // MoE layers in flat order: "encoder.1", "encoder.3", …, "decoder.1", …
  std::vector<std::string> moe_layers() const;
};

// Reads and checks a config.json; what is missing takes transformers' default. Throws io_error, or
// checkpoint_invalid naming the field that is out of range or asks for what is not supported.
SwitchConfig load_switch_config(const std::string& path);

// The same from text; `file` names it in errors.
SwitchConfig parse_switch_config(std::string_view text, const std::string& file);

}  // namespace sida
