#include "spec/families/qwen3_next/qwen3_next.h"
#include "spec/families/qwen_delta.h"
#include "spec/families/qwen_layers.h"

namespace sida {

ModelSpec read_qwen3_next_config(const ConfigReader& reader) {
  const DecoderDefaults decoder{.vocab = 151936,
                                .width = 2048,
                                .layers = 48,
                                .heads = 16,
                                .kv_heads = 2,
                                .context = 32768,
                                .epsilon = 1e-6,
                                .partial_rotary = 0.25,
                                .head_dim = 256};
  ModelSpec spec = read_qwen_delta(reader, {decoder, 512, 10, false});
  make_dense_layers(reader, 5632, spec.stacks.front());
  return spec;
}

}  // namespace sida
