#pragma once

#include "spec/families/decoder_config.h"
#include "spec/families/decoder_tensors.h"
#include "spec/families/sigmoid_router.h"

namespace sida {

/// DeepSeek's defaults of latent attention; a query rank of 0: none.
struct LatentDefaults {
  int query_rank, rank, rotary, flat, value_dim;
};

/// Latent attention as DeepSeek's configs describe it, with score_factor().
AttentionSpec read_latent_attention(const ConfigReader& reader, const DecoderDefaults& decoder,
                                    const LatentDefaults& defaults);

/// A stack of `layer`, whose rotary columns are those of its latent attention; `adjacent`: pairs are neighbours.
StackSpec latent_stack(const ConfigReader& reader, const DecoderDefaults& defaults, bool adjacent,
                       const LayerSpec& layer);

/// What a config of such a model means where a field is missing.
struct LatentMoeDefaults {
  DecoderDefaults decoder;
  MoeDefaults moe;
  SigmoidRouterDefaults router;
  LatentDefaults latent;
  int dense_layers, dense_width;  ///< of the first layers
};

/// A decoder with latent attention, a sigmoid router and shared experts: DeepSeek-V3 and GLM-4.7-Flash.
ModelSpec read_latent_moe(const ConfigReader& reader, const LatentMoeDefaults& defaults);

/// DeepSeek's names: those of latent attention, otherwise as decoder_source().
TensorSource latent_source(const ModelSpec& spec, const TensorSlot& slot);

}  // namespace sida
