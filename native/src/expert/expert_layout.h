#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/panels.h"

namespace sida {

/// A flat expert id: MoE layer · experts per layer + index. Encoder layers come first.
using ExpertId = uint32_t;

/// Where an expert's matrices lie inside its block. Blocks of equal size stand one after the other, by id.
struct ExpertLayout {
  WeightFormat format;
  size_t d_model = 0;
  size_t d_ff = 0;
  size_t layers = 0;
  size_t experts_per_layer = 0;
  uint64_t wi_offset = 0;
  uint64_t wo_offset = 0;
  /// Whole 4 KiB pages, so that a block is one O_DIRECT read.
  uint64_t block_bytes = 0;

  size_t experts() const { return layers * experts_per_layer; }
  PanelMatrix wi(const std::byte* block) const { return {block + wi_offset, format, d_model, d_ff}; }
  PanelMatrix wo(const std::byte* block) const { return {block + wo_offset, format, d_ff, d_model}; }
};

ExpertLayout make_expert_layout(WeightFormat format, size_t d_model, size_t d_ff, size_t layers,
                                size_t experts_per_layer);

}  // namespace sida
