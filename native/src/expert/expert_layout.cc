#include "expert/expert_layout.h"

namespace sida {

ExpertLayout make_expert_layout(WeightFormat format, size_t d_model, size_t d_ff, size_t layers,
                                size_t experts_per_layer) {
  ExpertLayout layout{format, d_model, d_ff, layers, experts_per_layer};
  layout.wo_offset = (panel_matrix_bytes(d_ff, d_model, format) + 63) / 64 * 64;
  layout.block_bytes = (layout.wo_offset + panel_matrix_bytes(d_model, d_ff, format) + 4095) / 4096 * 4096;
  return layout;
}

}  // namespace sida
