#include "device/cuda/driver_figures.h"

#ifdef SIDA_CUDA_EMULATED

#include "emulation_control.h"

namespace sida {

std::optional<DriverFigures> driver_figures() {
  const size_t used = emulation::used_memory();
  return DriverFigures{"emulated", used, used};
}

}  // namespace sida

#else

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <vector>

namespace sida {
namespace {

// Types and functions of nvml.h, which is not part of the compiler's packages.
using NvmlDevice = struct nvmlDevice_st*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr int kSuccess = 0;
constexpr unsigned long long kUnknownBytes = ~0ULL;

template <class Signature>
Signature* symbol(void* library, const char* name) {
  return reinterpret_cast<Signature*>(dlsym(library, name));
}

/// The driver's library. It is never unloaded.
struct Nvml {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*init)() = nullptr;
  int (*version)(char*, unsigned) = nullptr;
  int (*device)(const char*, NvmlDevice*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
  bool works = false;

  Nvml() {
    if (library == nullptr) return;
    init = symbol<int()>(library, "nvmlInit_v2");
    version = symbol<int(char*, unsigned)>(library, "nvmlSystemGetDriverVersion");
    device = symbol<int(const char*, NvmlDevice*)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
    memory = symbol<int(NvmlDevice, NvmlMemory*)>(library, "nvmlDeviceGetMemoryInfo");
    processes = symbol<int(NvmlDevice, unsigned*, NvmlProcess*)>(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    works = init != nullptr && version != nullptr && device != nullptr && memory != nullptr && init() == kSuccess;
  }
};

/// 0 where the driver does not list this process.
uint64_t own_bytes(const Nvml& nvml, NvmlDevice device) {
  std::vector<NvmlProcess> processes(1024);
  auto count = static_cast<unsigned>(processes.size());
  if (nvml.processes == nullptr || nvml.processes(device, &count, processes.data()) != kSuccess) return 0;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    const NvmlProcess& process = processes[i];
    if (process.pid == static_cast<unsigned>(getpid()) && process.used_bytes != kUnknownBytes) {
      bytes += process.used_bytes;
    }
  }
  return bytes;
}

}  // namespace

std::optional<DriverFigures> driver_figures() {
  static const Nvml nvml;
  // CUDA_VISIBLE_DEVICES may have made another GPU the first one. The bus names the same GPU to both libraries.
  std::array<char, 32> bus{}, version{};
  NvmlDevice device = nullptr;
  NvmlMemory memory{};
  if (!nvml.works || cudaDeviceGetPCIBusId(bus.data(), bus.size(), 0) != cudaSuccess ||
      nvml.device(bus.data(), &device) != kSuccess || nvml.memory(device, &memory) != kSuccess ||
      nvml.version(version.data(), version.size()) != kSuccess) {
    return std::nullopt;
  }
  return DriverFigures{version.data(), memory.used, own_bytes(nvml, device)};
}

}  // namespace sida

#endif
