// Peak rates of a machine with a cuda device, as one line of JSON: copies between page-locked memory of
// the host and the device, large ones and one expert at a time, and copies inside the device's memory.
//   cuda_limits_bench [--rounds N] [--megabytes N]
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#ifdef SIDA_WITH_CUDA
#include "bench_options.h"
#include "cuda_timing.h"

namespace {

using namespace sida;

constexpr size_t kExpertBytes = 2 * 768 * 3072 * 2;  ///< of Switch-base in bf16

/// Bytes per second of copies of `chunk` bytes each, one queued behind the other, `bytes` in all.
double copies(DeviceTimer& timer, std::byte* to, const std::byte* from, size_t bytes, size_t chunk,
              cudaMemcpyKind kind) {
  const size_t count = bytes / chunk;
  const double seconds = timer.seconds_of([&] {
    for (size_t i = 0; i < count; ++i) {
      require_success(cudaMemcpyAsync(to + i * chunk, from + i * chunk, chunk, kind, nullptr), "copy");
    }
  });
  return static_cast<double>(count * chunk) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const BenchOptions options = parse_bench_options(argc, argv);
  const size_t bytes = options.megabytes << 20;
  const size_t expert = std::min(kExpertBytes, bytes);
  std::byte* device = device_memory(bytes);
  void* memory = nullptr;
  require_success(cudaMallocHost(&memory, bytes), "page-locked memory");
  auto* host = static_cast<std::byte*>(memory);
  std::memset(host, 1, bytes);
  cudaDeviceProp properties{};
  require_success(cudaGetDeviceProperties(&properties, 0), "device");
  DeviceTimer timer;
  std::vector<double> to_device, from_device, expert_to_device, inside;
  for (size_t round = 0; round <= options.rounds; ++round) {
    const double in = copies(timer, device, host, bytes, bytes, cudaMemcpyHostToDevice);
    const double out = copies(timer, host, device, bytes, bytes, cudaMemcpyDeviceToHost);
    const double experts = copies(timer, device, host, bytes, expert, cudaMemcpyHostToDevice);
    const double copy = copy_bandwidth(timer, device, bytes);
    if (round == 0) continue;
    to_device.push_back(in);
    from_device.push_back(out);
    expert_to_device.push_back(experts);
    inside.push_back(copy);
  }
  std::printf(
      "{\"device\":\"%s\",\"rounds\":%zu,\"hostToDeviceBytesPerSecond\":%.4g,"
      "\"deviceToHostBytesPerSecond\":%.4g,\"expertBytes\":%zu,\"expertToDeviceBytesPerSecond\":%.4g,"
      "\"deviceCopyBytesPerSecond\":%.4g}\n",
      properties.name, options.rounds, median(to_device), median(from_device), expert, median(expert_to_device),
      median(inside));
  cudaFreeHost(memory);
  cudaFree(device);
}
#else
int main() {
  std::puts("cuda_limits_bench: built without the cuda device");
  return 1;
}
#endif
