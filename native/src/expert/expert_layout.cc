#include "expert/expert_layout.h"

namespace sida {

ExpertLayout make_expert_layout(bool bf16, size_t d_model, size_t d_ff, size_t layers,
                                size_t experts_per_layer) {
  ExpertLayout layout{bf16, d_model, d_ff, layers, experts_per_layer};
  layout.wo_offset = (panel_matrix_bytes(d_ff, d_model, bf16) + 63) / 64 * 64;
  layout.block_bytes = (layout.wo_offset + panel_matrix_bytes(d_model, d_ff, bf16) + 4095) / 4096 * 4096;
  return layout;
}

}  // namespace sida
