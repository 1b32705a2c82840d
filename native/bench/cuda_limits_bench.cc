// Peak rates of a machine with a cuda device, as one line of JSON: copies between page-locked memory of
// the host and the device, large ones and one expert at a time, and copies inside the device's memory. Then what work
// costs that does nothing: on the device, for the host to queue it, and for the host to wait for it.
//   cuda_limits_bench [--rounds N] [--megabytes N]
#include <chrono>
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

constexpr size_t kLaunches = 1000;

/// Seconds of the host for `body`.
template <class F>
double host_seconds(const F& body) {
  const auto begun = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

/// Queues the smallest work there is, `count` times.
void queue_launches(std::byte* device, size_t count) {
  for (size_t i = 0; i < count; ++i) require_success(cudaMemsetAsync(device, 0, 256, nullptr), "launch");
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
  std::vector<double> to_device, from_device, expert_to_device, inside, launch, queue, wait;
  for (size_t round = 0; round <= options.rounds; ++round) {
    const double in = copies(timer, device, host, bytes, bytes, cudaMemcpyHostToDevice);
    const double out = copies(timer, host, device, bytes, bytes, cudaMemcpyDeviceToHost);
    const double experts = copies(timer, device, host, bytes, expert, cudaMemcpyHostToDevice);
    const double copy = copy_bandwidth(timer, device, bytes);
    const double launches = timer.seconds_of([&] { queue_launches(device, kLaunches); });
    const double queued = host_seconds([&] { queue_launches(device, kLaunches); });
    require_success(cudaDeviceSynchronize(), "launches");
    const double waited = host_seconds([&] {
      queue_launches(device, 1);
      require_success(cudaStreamSynchronize(nullptr), "launch");
    });
    if (round == 0) continue;
    to_device.push_back(in);
    from_device.push_back(out);
    expert_to_device.push_back(experts);
    inside.push_back(copy);
    launch.push_back(launches / kLaunches);
    queue.push_back(queued / kLaunches);
    wait.push_back(waited);
  }
  std::printf(
      "{\"device\":\"%s\",\"rounds\":%zu,\"hostToDeviceBytesPerSecond\":%.4g,"
      "\"deviceToHostBytesPerSecond\":%.4g,\"expertBytes\":%zu,\"expertToDeviceBytesPerSecond\":%.4g,"
      "\"deviceCopyBytesPerSecond\":%.4g,\"launchSeconds\":%.4g,\"queueSeconds\":%.4g,\"waitSeconds\":%.4g}\n",
      properties.name, options.rounds, median(to_device), median(from_device), expert, median(expert_to_device),
      median(inside), median(launch), median(queue), median(wait));
  cudaFreeHost(memory);
  cudaFree(device);
}
#else
int main() {
  std::puts("cuda_limits_bench: built without the cuda device");
  return 1;
}
#endif
