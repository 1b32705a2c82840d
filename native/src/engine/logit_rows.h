#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "engine/batch.h"
#include "model/batch_limits.h"
#include "model/model.h"

namespace sida {

/// What is asked of the logits of a pass, answered chunk by chunk so that they are never held whole: picks, queries, and
/// logits that are wanted as they are.
class LogitRows {
 public:
  /// Host memory of the buffer.
  static uint64_t bytes(size_t vocab);

  /// The buffer counts as the device's where that is the host's own memory.
  LogitRows(DeviceMemory& memory, DeviceKind device, size_t vocab);

  /// Of the model's last pass.
  void answer(Model& model, const Batch& batch, const BatchOutput& output);

 private:
  void answer_chunk(const Batch& batch, const BatchOutput& output);

  size_t vocab_;
  size_t max_rows_;
  DeviceBuffer counted_;
  std::vector<float> own_;
  float* logits_;  ///< (max_rows_, vocab_)
  std::vector<int32_t> rows_;  ///< of the pass
  std::vector<int32_t> chunk_;
  // Where the next chunk goes on in the batch's lists.
  size_t next_pick_ = 0, next_top_ = 0, next_query_ = 0, next_logits_ = 0;
};

}  // namespace sida
