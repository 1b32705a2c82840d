#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "predictor/predictor_weights.h"

namespace sida {

/// The forward pass of an LSTM predictor on a device, from compressed rows to logits. Its weights are bf16. Its bits
/// are not the CPU's, but depend on neither the neighbours of a sequence nor the rows of a call.
class DeviceNetwork {
 public:
  virtual ~DeviceNetwork() = default;

  /// Rows of a call, at most.
  static constexpr size_t kMostRows = 1024;

  /// Receives logits (rows, layers · experts) of the rows from `first` on, valid until it returns.
  using Take = std::function<void(size_t first, size_t rows, const float* logits)>;

  /// `compressed` (rows, h) are sequences of `lengths` rows one after the other. Blocks; calls `take` with the rows in
  /// their order. From any thread. Throws device_failed.
  virtual void forward(std::span<const uint32_t> lengths, const float* compressed, const Take& take) = 0;
};

}  // namespace sida
