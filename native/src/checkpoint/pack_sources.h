#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/pack.h"
#include "checkpoint/slot_reader.h"

namespace sida {

/// One of an expert's matrices, or its bias: its place in the checkpoint and in the expert's block.
struct ExpertSource {
  SlotData data;
  const ExpertMatrix& matrix;
  bool bias;
};

/// In the order of the block. Throws checkpoint_invalid where one is missing or misshapen.
std::vector<ExpertSource> expert_sources(const Checkpoint& checkpoint, const Pack& pack, ExpertId id);

/// `encoder.1 expert 12`.
std::string expert_name(const Pack& pack, ExpertId id);

/// Rows of k inputs to convert at a time: whole panels, about 4 MiB. A whole embedding at a time would double the
/// memory of the process.
uint64_t rows_at_a_time(uint64_t k);

}  // namespace sida
