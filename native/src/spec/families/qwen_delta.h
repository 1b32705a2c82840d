#pragma once

#include "spec/families/decoder_config.h"
#include "spec/families/family.h"
#include "spec/families/gguf_config.h"

namespace sida {

// What Qwen3-Next and its successors have in common: delta rules in most layers, gated attention in the others, experts
// with a gated shared one.

/// Of a delta rule, so that the states of all sequences fit 63 bits.
constexpr int kMaxDeltaHeads = 1024, kMaxDeltaDim = 1024;

/// Experts and delta rules as a family's `decoder` has them by default.
struct QwenDeltaDefaults {
  DecoderDefaults decoder;
  int experts;
  int top_k;
  /// The order of value heads in GGUF, which is that of the model: llama.cpp's converter reorders them for one family.
  bool tiled;
};

/// A spec whose stack is all sparse.
ModelSpec read_qwen_delta(const ConfigReader& reader, const QwenDeltaDefaults& defaults);

/// Where transformers' checkpoints hold a tensor: all projections of a delta rule in two, by key head, or tiled in
/// four.
TensorSource qwen_delta_source(const ModelSpec& spec, const TensorSlot& slot);

/// Sets what GGUF files say beside what all decoders have.
void set_qwen_delta(const GgufModel& model, GgufConfig& config);
TensorSource qwen_delta_gguf_source(const ModelSpec& spec, const TensorSlot& slot);

}  // namespace sida
