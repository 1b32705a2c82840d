#include "spec/families/config_limits.h"
#include "spec/families/decoder_config.h"
#include "spec/families/mixtral/mixtral.h"

namespace sida {

ModelSpec read_mixtral_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{.vocab = 32000,
                                 .width = 4096,
                                 .layers = 32,
                                 .heads = 32,
                                 .kv_heads = 8,
                                 .context = 131072,
                                 .epsilon = 1e-5,
                                 .theta = 1e6,
                                 .end = {2}};
  ModelSpec spec = read_decoder(reader, defaults);
  MoeSpec moe = read_moe(reader, {8, 2, "intermediate_size", 14336});
  moe.router.normalized = true;
  AttentionSpec attention = read_heads(reader, spec.width, defaults, HeadDim::kOwn);
  if (reader.field("sliding_window")) attention.window = read_count(reader, "sliding_window", kMaxCount, 0);
  const LayerSpec layer{attention, std::nullopt, moe};
  spec.stacks.push_back(decoder_stack(reader, defaults, layer));
  return spec;
}

}  // namespace sida
