#pragma once

#include <cstddef>
#include <cstdint>

#include "spec/activation_format.h"
#include "spec/kv_page.h"

namespace sida {

/// The device that holds a model's weights and computes.
enum class DeviceKind : uint8_t { kCpu, kCuda };

/// The limits that size the workspace, the KV cache and the dense weights on the device.
struct BatchLimits {
  size_t max_batch_tokens = 2048;  ///< tokens in one pass
  size_t kv_tokens = 3072;         ///< tokens the KV cache holds
  size_t threads = 1;              ///< each has scratch space of its own
  size_t max_routing_k = 1;        ///< experts that a batch's routing may name for a token
  bool routers = true;             ///< false: routers are not loaded, so every batch must bring its routing
  ActivationFormat activations = ActivationFormat::kF32;
  DeviceKind device = DeviceKind::kCpu;
  KvFormat kv = KvFormat::kF32;
  /// Sequences for which layers with a window keep pages beside those of the largest pass.
  size_t kv_windows = 1;
  /// Sequences that may have a recurrent state at a time.
  size_t kv_states = 4;
  /// Whether a GPU may run passes without the host, from CUDA graphs.
  bool device_passes = true;
  /// Whether a GPU also runs the predictor's networks.
  bool device_predictor = false;

  bool runs_alone() const { return device == DeviceKind::kCuda && device_passes; }
};

}  // namespace sida
