#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "device/backend.h"
#include "ops/ops.h"
#include "predictor/device_network.h"
#include "spec/batch_limits.h"
#include "spec/spec.h"
#include "weights/model_weights.h"

// Factories for each kind of device. All throw device_unavailable where this build or this machine has no such device.
namespace sida {

class DeviceMemory;
class KvCache;

/// CUDA support of this build and this machine. Does not throw.
struct CudaState {
  bool compiled = false;
  bool emulated = false;
  int devices = 0;
  std::string message;     ///< why there is no device
  std::string name;        ///< of the first device
  std::string capability;  ///< as in 9.0
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  ///< with what this process's context takes
  uint64_t context_bytes = 0;
  bool context_measured = false;
  std::string driver;    ///< version
  double copy_rate = 0;  ///< bytes per second of copies from page-locked memory to the device; 0: not measured
};
/// On a GPU, this makes the process's context. Measures copies for `copy_time`.
CudaState cuda_state(std::chrono::duration<double> copy_time = {});

/// Bytes of the budget that the driver of a device takes for a model whose experts have `expert_bytes` in the host's
/// memory, and whose passes may be CUDA graphs of `graph_layers` layers. See gpu_driver_bytes() of allocation_bytes.h;
/// without a GPU its context has the usual size.
uint64_t driver_bytes(DeviceKind kind, uint64_t expert_bytes, size_t graph_layers);

std::unique_ptr<Backend> make_backend(DeviceKind kind);

/// Bytes of a model's activations and scratch space on the device of `limits`.
uint64_t workspace_bytes(const ModelSpec& spec, const BatchLimits& limits);

/// The ops of the device of `limits`, over weights in that device's memory. All but `limits` outlive them.
std::unique_ptr<Ops> make_ops(const ModelSpec& spec, const ModelWeights& weights, DeviceMemory& memory, KvCache& cache,
                              const BatchLimits& limits);

/// Null for the cpu, which runs a predictor's network by itself. See CudaNetwork.
std::unique_ptr<DeviceNetwork> make_device_network(DeviceKind kind, const PredictorWeights& weights);

}  // namespace sida
