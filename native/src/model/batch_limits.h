#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// What holds the weights of a model and computes.
enum class DeviceKind : uint8_t { kCpu, kCuda };

/// What meets int8 and int4 weights; cpu only.
enum class ActivationFormat : uint8_t { kF32, kInt8 };

/// What sizes the workspace, the KV cache and the dense weights.
struct BatchLimits {
  size_t max_batch_tokens = 2048;  ///< tokens of one pass
  size_t kv_tokens = 3072;         ///< tokens the KV cache holds
  size_t threads = 1;              ///< each has scratch space of its own
  size_t max_routing_k = 1;        ///< experts that a batch's routing may name for a token
  bool routers = true;             ///< false: not on the device; every batch brings its routing
  ActivationFormat activations = ActivationFormat::kF32;  ///< what meets int8 and int4 weights
  DeviceKind device = DeviceKind::kCpu;
};

}  // namespace sida
