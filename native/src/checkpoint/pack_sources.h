#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "expert/pack.h"

namespace sida {

/// The checkpoint's tensor behind one of a pack's dense file. Throws checkpoint_invalid where it is missing
/// or misshapen.
const TensorInfo& dense_source(const Checkpoint& checkpoint, const DenseTensor& tensor);

/// One of an expert's two matrices: where the checkpoint has it, and where the expert's block.
struct ExpertSource {
  const char* name;  ///< wi or wo
  const TensorInfo& tensor;
  uint64_t offset;  ///< in the block
  size_t n, k;
};

/// wi and wo. Throws as dense_source.
std::vector<ExpertSource> expert_sources(const Checkpoint& checkpoint, const Pack& pack, ExpertId id);

/// `encoder.1 expert 12`.
std::string expert_name(const Pack& pack, ExpertId id);

/// Rows [row, row + rows) of a (n, k) tensor, as f32, into `out`. Where they are to be quantized, throws
/// checkpoint_invalid naming the first weight that is NaN or infinite: no scale could carry it.
void read_rows(const Checkpoint& checkpoint, const TensorInfo& tensor, uint64_t row, uint64_t rows,
               uint64_t k, WeightFormat format, std::vector<float>& out);

/// Rows of k inputs to work on at a time: whole panels, about 4 MiB. An embedding as a whole would double the
/// memory of the process.
uint64_t rows_at_a_time(uint64_t k);

}  // namespace sida
