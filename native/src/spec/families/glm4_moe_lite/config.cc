#include "spec/families/glm4_moe_lite/glm4_moe_lite.h"
#include "spec/families/latent_config.h"

namespace sida {

ModelSpec read_glm4_moe_lite_config(const ConfigReader& reader) {
  // All of a head's rotary columns are rotated.
  reader.real("partial_rotary_factor", 1, 1, 1);
  return read_latent_moe(reader, {.decoder = {.vocab = 154880,
                                              .width = 2048,
                                              .layers = 47,
                                              .heads = 20,
                                              .kv_heads = 20,
                                              .context = 202752,
                                              .epsilon = 1e-5,
                                              .end = {1},
                                              .extra_layers = 1},
                                  .moe = {64, 4, "moe_intermediate_size", 1536},
                                  .router = {1, 1, 1.8},
                                  .latent = {768, 512, 64, 192, 256},
                                  .dense_layers = 1,
                                  .dense_width = 10240});
}

}  // namespace sida
