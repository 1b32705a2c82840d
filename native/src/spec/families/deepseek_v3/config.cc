#include "spec/families/deepseek_v3/deepseek_v3.h"
#include "spec/families/latent_config.h"

namespace sida {

ModelSpec read_deepseek_v3_config(const ConfigReader& reader) {
  return read_latent_moe(reader, {.decoder = {.vocab = 129280,
                                              .width = 7168,
                                              .layers = 61,
                                              .heads = 128,
                                              .kv_heads = 128,
                                              .context = 4096,
                                              .epsilon = 1e-6,
                                              .end = {1},
                                              .extra_layers = 1},
                                  .moe = {256, 8, "moe_intermediate_size", 2048},
                                  .router = {8, 4, 2.5},
                                  .latent = {1536, 512, 64, 128, 128},
                                  .dense_layers = 3,
                                  .dense_width = 18432});
}

}  // namespace sida
