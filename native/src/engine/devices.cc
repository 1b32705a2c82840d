#include "engine/devices.h"

#include "core/error.h"
#include "device/allocation_bytes.h"
#include "ops/cpu/cpu_ops.h"
#ifdef SIDA_WITH_CUDA
#include "device/cuda/cuda_backend.h"
#include "ops/cuda/cuda_ops.h"
#include "predictor/cuda/cuda_network.h"
#endif

namespace sida {
namespace {

#ifndef SIDA_WITH_CUDA
constexpr const char* kNoCuda =
    "this build has no cuda device: no CUDA compiler (nvcc) or no GPU was found when it was built; "
    "SIDA_CUDA=ON npm run build:native adds the device";
[[noreturn]] void no_cuda() { throw Error("device_unavailable", kNoCuda); }
#endif

}  // namespace

CudaState cuda_state([[maybe_unused]] std::chrono::duration<double> copy_time) {
  CudaState state;
#ifdef SIDA_WITH_CUDA
  state.compiled = true;
#ifdef SIDA_CUDA_EMULATED
  state.emulated = true;
#endif
  try {
    const CudaDevice device = find_cuda_device();
    state.devices = device.count;
    state.name = device.name;
    state.capability = std::to_string(device.major) + "." + std::to_string(device.minor);
    state.total_bytes = device.total_bytes;
    state.free_bytes = device.free_bytes;
    state.context_bytes = device.context.bytes;
    state.context_measured = device.context.measured;
    state.driver = device.driver;
    if (copy_time.count() > 0) state.copy_rate = cuda_copy_rate(copy_time);
  } catch (const Error& error) {
    state.message = error.what();
  }
#else
  state.message = kNoCuda;
#endif
  return state;
}

uint64_t driver_bytes(DeviceKind kind, uint64_t expert_bytes, size_t graph_layers) {
  if (kind == DeviceKind::kCpu) return 0;
  const CudaState state = cuda_state();
  return gpu_driver_bytes(state.devices > 0 ? state.context_bytes : kUsualContextBytes, expert_bytes, graph_layers);
}

std::unique_ptr<Backend> make_backend(DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return make_cpu_backend();
#ifdef SIDA_WITH_CUDA
  return std::make_unique<CudaBackend>();
#else
  no_cuda();
#endif
}

uint64_t workspace_bytes(const ModelSpec& spec, const BatchLimits& limits) {
  if (limits.device == DeviceKind::kCpu) return CpuOps::bytes(spec, limits);
#ifdef SIDA_WITH_CUDA
  return CudaOps::bytes(spec, limits);
#else
  no_cuda();
#endif
}

std::unique_ptr<Ops> make_ops(const ModelSpec& spec, const ModelWeights& weights, DeviceMemory& memory, KvCache& cache,
                              const BatchLimits& limits) {
  if (limits.device == DeviceKind::kCpu) return std::make_unique<CpuOps>(spec, weights, memory, cache, limits);
#ifdef SIDA_WITH_CUDA
  return std::make_unique<CudaOps>(spec, weights, memory, cache, limits);
#else
  no_cuda();
#endif
}

std::unique_ptr<DeviceNetwork> make_device_network(DeviceKind kind, [[maybe_unused]] const PredictorWeights& weights) {
  if (kind == DeviceKind::kCpu) return nullptr;
#ifdef SIDA_WITH_CUDA
  return std::make_unique<CudaNetwork>(weights);
#else
  no_cuda();
#endif
}

}  // namespace sida
