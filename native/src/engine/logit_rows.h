#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "engine/batch.h"
#include "graph/model.h"
#include "spec/batch_limits.h"

namespace sida {

/// Answers what a batch asks of its logits: picks, queries, and whole rows. It works chunk by chunk, so that a pass's
/// logits are never all in memory.
class LogitRows {
 public:
  /// Bytes of the buffer in host memory.
  static uint64_t bytes(size_t vocab);

  /// Where the device is the cpu, the buffer counts towards the device's budget.
  LogitRows(DeviceMemory& memory, DeviceKind device, size_t vocab);

  /// Answers for the model's last pass.
  void answer(Model& model, const Batch& batch, const BatchOutput& output);

 private:
  void answer_chunk(const Batch& batch, const BatchOutput& output);

  size_t vocab_;
  size_t max_rows_;
  DeviceBuffer counted_;
  std::vector<float> own_;
  float* logits_;              ///< (max_rows_, vocab_)
  std::vector<int32_t> rows_;  ///< of the pass
  std::vector<int32_t> chunk_;
  std::vector<int32_t> tokens_;  ///< of one row's queries
  // Where the next chunk continues in the batch's lists.
  size_t next_pick_ = 0, next_top_ = 0, next_query_ = 0, next_logits_ = 0;
};

}  // namespace sida
