#include "device/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_host_memory.h"
#include "device/cuda/cuda_writer.h"
#include "device/cuda/driver_figures.h"

namespace sida {
namespace {

// The oldest architecture that the kernels are compiled for; PTX of the newest runs on later ones.
constexpr int kOldestMajor = 8;

[[noreturn]] void unavailable(const std::string& why) {
  throw Error("device_unavailable", "there is no cuda device: " + why);
}

}  // namespace

CudaDevice find_cuda_device() {
  load_kernels_with_context();
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  int driver = 0;
  if (error != cudaSuccess && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
    unavailable("no NVIDIA driver is loaded");
  }
  if (error != cudaSuccess) unavailable(cudaGetErrorString(error));
  if (count == 0) unavailable("the driver lists no GPU");
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  CudaDevice device;
  device.count = count;
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.total_bytes = properties.totalGlobalMem;
  if (device.major < kOldestMajor) {
    unavailable(device.name + " has compute capability " + std::to_string(device.major) + "." +
                std::to_string(device.minor) + "; at least " + std::to_string(kOldestMajor) + ".0 is needed");
  }
  device.context = cuda_context();
  if (const auto figures = driver_figures()) device.driver = figures->version;
  size_t free_bytes = 0, total_bytes = 0;
  cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  device.free_bytes = free_bytes + device.context.bytes;
  return device;
}

double cuda_copy_rate(std::chrono::duration<double> time) {
  constexpr size_t kBytes = size_t{32} << 20;
  const auto host = make_cuda_host_array<std::byte>(kBytes);
  std::memset(host.get(), 1, kBytes);
  void* device = nullptr;
  cuda_check(cudaMalloc(&device, kBytes), "cudaMalloc");
  const std::unique_ptr<void, decltype(&cudaFree)> freed(device, &cudaFree);
  const CudaStream stream = make_cuda_stream();
  double best = 0;
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
    const auto start = std::chrono::steady_clock::now();
    cuda_check(cudaMemcpyAsync(device, host.get(), kBytes, cudaMemcpyHostToDevice, stream.get()), "cudaMemcpyAsync");
    cuda_check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, kBytes / seconds.count());
  }
  return best;
}

CudaBackend::CudaBackend() {
  find_cuda_device();
  cuda_check(cudaSetDevice(0), "cudaSetDevice");
  compute_ = make_cuda_stream();
  copies_ = make_cuda_stream();
  copied_ = make_cuda_event();
}

CudaBackend::~CudaBackend() {
  // A stream's destruction waits for its work; a failed device has no work left.
  cudaStreamSynchronize(copies_.get());
  cudaStreamSynchronize(compute_.get());
}

std::byte* CudaBackend::allocate(size_t bytes, Touch /*touch*/) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error
    return nullptr;
  }
  cuda_check(error, "cudaMalloc");
  std::lock_guard lock(mutex_);
  slots_[static_cast<std::byte*>(memory)].bytes = bytes;
  return static_cast<std::byte*>(memory);
}

void CudaBackend::deallocate(std::byte* memory, size_t) {
  cudaDeviceSynchronize();  // kernels may still read or write the memory
  // Forget the slot before it is freed: another thread may be given its address at once.
  std::lock_guard lock(mutex_);
  slots_.erase(memory);
  cudaFree(memory);
}

void CudaBackend::clear(std::byte* memory, size_t bytes) {
  cuda_check(cudaMemsetAsync(memory, 0, bytes, compute_.get()), "cudaMemsetAsync");
}

void CudaBackend::copy(std::byte* to, const std::byte* from, size_t bytes) {
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_.get()), "cudaMemcpyAsync");
}

std::unique_ptr<DeviceWriter> CudaBackend::writer() { return std::make_unique<CudaWriter>(*this); }

std::unique_ptr<Backend> CudaBackend::host_memory() { return std::make_unique<CudaHostMemory>(); }

CudaBackend::SlotEvents& CudaBackend::slot_at(const std::byte* address) {
  const auto after = slots_.upper_bound(address);
  if (after != slots_.begin()) {
    const auto slot = std::prev(after);
    if (address < slot->first + slot->second.bytes) return slot->second;
  }
  throw Error("internal", "an address outside the device's memory. This is a bug.");
}

void CudaBackend::emptied(std::byte* slot, size_t bytes) {
  if (!poisons_) return;
  try {
    copy_after_use(slot);
    cuda_check(cudaMemsetAsync(slot, kPoison, bytes, copies_.get()), "cudaMemsetAsync");
  } catch (const Error&) {
    // A failed device tells it to the copy that follows, whose error reaches the pass.
  }
}

void CudaBackend::filled(std::byte* slot) {
  std::lock_guard lock(mutex_);
  SlotEvents& events = slot_at(slot);
  if (!events.filled) events.filled = make_cuda_event();
  events.awaited = false;
  cuda_check(cudaEventRecord(events.filled.get(), copies_.get()), "cudaEventRecord");
}

void CudaBackend::compute_after_fill(const std::byte* slot) {
  std::lock_guard lock(mutex_);
  SlotEvents& events = slot_at(slot);
  if (events.awaited) return;
  cuda_check(cudaStreamWaitEvent(compute_.get(), events.filled.get(), 0), "cudaStreamWaitEvent");
  events.awaited = true;
}

void CudaBackend::compute_after_copies() {
  cuda_check(cudaEventRecord(copied_.get(), copies_.get()), "cudaEventRecord");
  cuda_check(cudaStreamWaitEvent(compute_.get(), copied_.get(), 0), "cudaStreamWaitEvent");
}

uint64_t CudaBackend::mark() {
  std::lock_guard lock(mutex_);
  CudaEvent& event = marks_[++last_mark_ % kMarks];
  if (!event) event = make_cuda_event();
  cuda_check(cudaEventRecord(event.get(), compute_.get()), "cudaEventRecord");
  return last_mark_;
}

void CudaBackend::used(const std::byte* slot, uint64_t mark) {
  std::lock_guard lock(mutex_);
  slot_at(slot).used = mark;
}

void CudaBackend::copy_after_use(const std::byte* slot) {
  std::lock_guard lock(mutex_);
  uint64_t mark = slot_at(slot).used;
  if (mark == 0) return;
  if (last_mark_ >= kMarks) mark = std::max(mark, last_mark_ - kMarks + 1);
  cuda_check(cudaStreamWaitEvent(copies_.get(), marks_[mark % kMarks].get(), 0), "cudaStreamWaitEvent");
}

}  // namespace sida
