// The emulated device shows what a GPU would: data before it is there is NaN, and what a GPU refuses ends the kernel.
#ifdef SIDA_CUDA_EMULATED

#include <condition_variable>
#include <functional>
#include <mutex>

#include "device/cuda/cuda_handles.h"
#include "device/cuda/kernel_language.h"
#include "emulation_control.h"
#include "support/device_copy.h"

namespace {

using namespace sida::cuda;

constexpr size_t kCount = 1000, kBytes = kCount * sizeof(float);

/// An emulated device without errors of others, before and after a test.
struct FreshDevice {
  FreshDevice() { emulation::reset(); }
  ~FreshDevice() { emulation::reset(); }
};

/// Device memory for kCount floats, as it is when fresh.
class FreshFloats {
 public:
  FreshFloats() { require_success(cudaMalloc(&data_, kBytes)); }
  ~FreshFloats() { cudaFree(data_); }
  FreshFloats(const FreshFloats&) = delete;
  FreshFloats& operator=(const FreshFloats&) = delete;

  float* data() const { return data_; }
  std::vector<float> read() const {
    std::vector<float> values(kCount);
    require_success(cudaMemcpy(values.data(), data_, kBytes, cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  float* data_ = nullptr;
};

bool all(const std::vector<float>& values, float expected) {
  return std::ranges::all_of(values, [&](float value) { return value == expected; });
}

bool all_nan(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isnan(value); });
}

/// to = 2 · from
__global__ void twice(const float* from, float* to, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = 2 * from[i];
}

TEST_CASE("cuda emulation: captured work runs when its graph is launched, each time") {
  const FreshDevice device;
  const CudaStream stream = make_cuda_stream();
  const CudaHostArray<float> host = make_cuda_host_array<float>(kCount);
  const FreshFloats from, to;
  require_success(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  require_success(cudaMemcpyAsync(from.data(), host.get(), kBytes, cudaMemcpyHostToDevice, stream.get()));
  launch(twice, {4, 256}, stream.get(), from.data(), to.data(), unsigned{kCount});
  cudaGraph_t captured = nullptr;
  require_success(cudaStreamEndCapture(stream.get(), &captured));
  const CudaGraph graph(captured);
  require_success(cudaStreamSynchronize(stream.get()));
  CHECK(all_nan(to.read()));
  cudaGraphExec_t instance = nullptr;
  require_success(cudaGraphInstantiate(&instance, graph.get()));
  const CudaGraphExec executable(instance);
  for (const float number : {1.0f, 3.0f}) {
    std::fill_n(host.get(), kCount, number);
    require_success(cudaGraphLaunch(executable.get(), stream.get()));
    require_success(cudaStreamSynchronize(stream.get()));
    CHECK(all(to.read(), 2 * number));
  }
}

TEST_CASE("cuda emulation: a capture takes a stream that waits for it, whose work it must wait for") {
  const FreshDevice device;
  const CudaStream stream = make_cuda_stream(), other = make_cuda_stream();
  const CudaEvent begun = make_cuda_event(), ended = make_cuda_event();
  const FreshFloats floats;
  for (const bool joined : {false, true}) {
    require_success(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    require_success(cudaEventRecord(begun.get(), stream.get()));
    require_success(cudaStreamWaitEvent(other.get(), begun.get()));
    require_success(cudaMemsetAsync(floats.data(), 0, kBytes, other.get()));
    require_success(cudaEventRecord(ended.get(), other.get()));
    if (joined) require_success(cudaStreamWaitEvent(stream.get(), ended.get()));
    cudaGraph_t captured = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &captured) == (joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
    const CudaGraph graph(captured);
    require_success(cudaStreamSynchronize(other.get()));
    CHECK(all_nan(floats.read()));
    if (!joined) continue;
    cudaGraphExec_t instance = nullptr;
    require_success(cudaGraphInstantiate(&instance, graph.get()));
    const CudaGraphExec executable(instance);
    require_success(cudaGraphLaunch(executable.get(), stream.get()));
    require_success(cudaStreamSynchronize(stream.get()));
    CHECK(all(floats.read(), 0));
  }
}

TEST_CASE("cuda emulation: a call that waits, allocates, or reads pageable memory ends a capture") {
  const FreshDevice device;
  const CudaStream stream = make_cuda_stream();
  const FreshFloats floats;
  std::vector<float> pageable(kCount);
  void* memory = nullptr;
  const std::function<cudaError_t()> calls[] = {
      [&] { return cudaStreamSynchronize(stream.get()); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaMalloc(&memory, 16); },
      [&] { return cudaMallocHost(&memory, 16); },
      [&] { return cudaMemcpyAsync(pageable.data(), floats.data(), kBytes, cudaMemcpyDeviceToHost, stream.get()); },
      [&] { return cudaMemcpy(pageable.data(), floats.data(), kBytes, cudaMemcpyDeviceToHost); }};
  for (const auto& call : calls) {
    require_success(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    CHECK(call() == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
  }
  require_success(cudaStreamSynchronize(stream.get()));
}

TEST_CASE("cuda emulation: memory has a limit, its own addresses, and NaNs when fresh") {
  const FreshDevice device;
  const FreshFloats floats;
  const size_t before = emulation::used_memory();
  {
    constexpr size_t kMiB = size_t{1} << 20;
    // Three of 0.6 MiB share a page, and half of a page more does not fit; a byte more than half has a page of its own.
    std::vector<void*> memory(6);
    for (size_t i = 0; i < 3; ++i) require_success(cudaMalloc(&memory[i], kMiB * 6 / 10));
    const size_t one_page = emulation::used_memory();
    CHECK(one_page <= before + 2 * kMiB);
    require_success(cudaMalloc(&memory[3], kMiB));
    require_success(cudaMalloc(&memory[4], kMiB));
    CHECK(emulation::used_memory() <= one_page + 2 * kMiB);
    const size_t shared = emulation::used_memory();
    require_success(cudaMalloc(&memory[5], 4 * kMiB + 1));
    CHECK(emulation::used_memory() == shared + 6 * kMiB);
    for (void* each : memory) require_success(cudaFree(each));
    CHECK(emulation::used_memory() == before);
    CHECK(emulation::peak_memory() >= shared + 6 * kMiB);
    CHECK(emulation::peak_memory() == before);
  }
  CHECK(all_nan(floats.read()));
  void* more = nullptr;
  CHECK(cudaMalloc(&more, size_t{4} << 30) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaMalloc(&more, kBytes) == cudaSuccess);
  CHECK(cudaFree(more) == cudaSuccess);
  CHECK(cudaFree(more) == cudaErrorInvalidValue);
  std::vector<float> host(kCount + 1);
  CHECK(cudaMemcpy(floats.data(), host.data(), kBytes + 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(floats.data(), host.data(), kBytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
}

struct LargeArguments {
  std::array<float, 1025> values;
};

__global__ void take_arguments(LargeArguments) {}

TEST_CASE("cuda emulation: launches beyond the hardware's limits are refused") {
  const FreshDevice device;
  const FreshFloats memory;
  const auto launched = [&](const LaunchShape& shape) {
    launch(twice, shape, nullptr, memory.data(), memory.data(), 0U);
    return cudaGetLastError();
  };
  CHECK(launched({1, 1025}) == cudaErrorInvalidConfiguration);
  CHECK(launched({1, {1, 1, 65}}) == cudaErrorInvalidConfiguration);
  CHECK(launched({0, 32}) == cudaErrorInvalidConfiguration);
  CHECK(launched({{1, 65536}, 32}) == cudaErrorInvalidConfiguration);
  CHECK(launched({1, 1024, size_t{48} << 10}) == cudaSuccess);
  CHECK(launched({1, 32, (size_t{48} << 10) + 1}) == cudaErrorInvalidValue);
  constexpr auto kShared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  CHECK(cudaFuncSetAttribute(twice, kShared, 228 << 10) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(twice, kShared, 227 << 10) == cudaSuccess);
  static_cast<void>(cudaGetLastError());
  CHECK(launched({1, 32, size_t{227} << 10}) == cudaSuccess);
  launch(take_arguments, {1, 32}, nullptr, LargeArguments{});
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

#ifndef __SANITIZE_THREAD__  // which reports the race, as it should
__global__ void reverse_without_barrier(const float* values, float* out) {
  auto* shared = reinterpret_cast<float*>(dynamic_shared());
  shared[threadIdx.x] = values[threadIdx.x];
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST_CASE("cuda emulation: a missing barrier gives wrong results") {
  const FreshDevice device;
  const DeviceCopy<float> in(std::vector<float>(64, 1.0F)), out(std::vector<float>(64));
  launch(reverse_without_barrier, {1, 64, 64 * sizeof(float)}, nullptr, in.data(), out.data());
  CHECK(std::ranges::any_of(out.read(), [](float value) { return std::isnan(value); }));
}
#endif

enum class Wait { kNone, kFirstGroup, kAll };

/// Copies 64 floats by 8 threads through shared memory, in two groups of 32.
__global__ void copy_through_shared(const float* from, float* to, Wait wait) {
  auto* shared = reinterpret_cast<float*>(dynamic_shared());
  const unsigned first = threadIdx.x * 4;
  for (const unsigned group : {0, 32}) {
    copy_async_16(shared + group + first, from + group + first);
    copy_async_commit();
  }
  if (wait == Wait::kFirstGroup) copy_async_wait<1>();
  if (wait == Wait::kAll) copy_async_wait<0>();
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) to[i] = shared[i];
}

TEST_CASE("cuda emulation: asynchronous copies arrive when waited for, and not before") {
  const FreshDevice device;
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const DeviceCopy<float> from(values), to(std::vector<float>(values.size()));
  const LaunchShape shape{1, 8, 64 * sizeof(float)};
  for (const auto& [wait, arrived] :
       {std::pair<Wait, long>{Wait::kAll, 64}, {Wait::kFirstGroup, 32}, {Wait::kNone, 0}}) {
    launch(copy_through_shared, shape, nullptr, from.data(), to.data(), wait);
    const auto found = to.read();
    CHECK(std::equal(found.begin(), found.begin() + arrived, values.begin()));
    CHECK(all_nan(std::span(found).subspan(static_cast<size_t>(arrived))));
  }
  launch(copy_through_shared, shape, nullptr, from.data() + 1, to.data(), Wait::kAll);
  CHECK(cudaDeviceSynchronize() == cudaErrorMisalignedAddress);
}

__global__ void barrier_for_some(unsigned threads) {
  if (threadIdx.x < threads) __syncthreads();
}

__global__ void shuffle_for_some(unsigned lanes, unsigned mask, int source) {
  if (threadIdx.x < lanes) static_cast<void>(__shfl_sync(mask, 1, source));
}

TEST_CASE("cuda emulation: barriers and warp functions that some threads do not reach end the device") {
  const FreshDevice device;
  /// That the kernel just launched ends the device with a failure of these words, or with none that it goes well.
  const auto check = [](const std::string& words) {
    CHECK(cudaDeviceSynchronize() == (words.empty() ? cudaSuccess : cudaErrorLaunchFailure));
    CHECK(emulation::last_failure().find(words) != std::string::npos);
    void* memory = nullptr;
    if (!words.empty()) CHECK(cudaMalloc(&memory, 4) == cudaErrorLaunchFailure);
    emulation::reset();
  };
  launch(barrier_for_some, {1, 64}, nullptr, 64U);
  check("");
  launch(barrier_for_some, {3, 64}, nullptr, 40U);
  check("24 threads ended, 40 wait at __syncthreads");
  launch(shuffle_for_some, {1, 32}, nullptr, 31U, kAllLanes, 0);
  check("at __shfl_sync for the lanes 0xffffffff");
  launch(shuffle_for_some, {1, 24}, nullptr, 32U, kAllLanes, 0);
  check("at __shfl_sync for the lanes 0xffffffff");
  launch(shuffle_for_some, {1, 32}, nullptr, 32U, 0xffffU, 0);
  check("without its own lane");
  launch(shuffle_for_some, {1, 32}, nullptr, 16U, 0xffffU, 16);
  check("a shuffle reads a lane that is not in its mask");
  launch(shuffle_for_some, {1, 32}, nullptr, 16U, 0xffffU, 15);
  check("");
}

/// Holds a stream's work up until it is opened.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    REQUIRE(cudaLaunchHostFunc(
                stream, [](void* self) { static_cast<Gate*>(self)->wait(); }, this) == cudaSuccess);
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    cv_.notify_all();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    cv_.wait(lock, [&] { return open_; });
  }

  std::mutex mutex_;
  std::condition_variable cv_;
  bool open_ = false;
};

CudaHostArray<float> pinned_floats(float value) {
  auto floats = make_cuda_host_array<float>(kCount);
  std::fill_n(floats.get(), kCount, value);
  return floats;
}

TEST_CASE("cuda emulation: an event orders streams, and without one a stream does not wait for another") {
  for (const bool ordered : {false, true}) {
    const FreshDevice device;
    const CudaStream copies = make_cuda_stream(), compute = make_cuda_stream();
    const CudaEvent copied = make_cuda_event();
    const auto host = pinned_floats(1);
    const FreshFloats in, out;
    Gate gate(copies.get());
    CHECK(cudaMemcpyAsync(in.data(), host.get(), kBytes, cudaMemcpyHostToDevice, copies.get()) == cudaSuccess);
    CHECK(cudaEventRecord(copied.get(), copies.get()) == cudaSuccess);
    if (ordered) CHECK(cudaStreamWaitEvent(compute.get(), copied.get()) == cudaSuccess);
    launch(twice, {(kCount + 127) / 128, 128}, compute.get(), in.data(), out.data(), unsigned{kCount});
    if (!ordered) CHECK(cudaStreamSynchronize(compute.get()) == cudaSuccess);
    gate.open();
    CHECK(cudaStreamSynchronize(copies.get()) == cudaSuccess);
    CHECK(cudaStreamSynchronize(compute.get()) == cudaSuccess);
    CHECK((ordered ? all(out.read(), 2) : all_nan(out.read())));
    CHECK(all(in.read(), 1));
  }
}

TEST_CASE("cuda emulation: pinned memory is read when the copy runs, pageable memory when it is asked for") {
  const FreshDevice device;
  const CudaStream stream = make_cuda_stream();
  const auto pinned = pinned_floats(1);
  std::vector<float> pageable(kCount, 1);
  const FreshFloats from_pinned, from_pageable;
  Gate gate(stream.get());
  for (const auto& [to, from] :
       {std::pair{from_pinned.data(), pinned.get()}, {from_pageable.data(), pageable.data()}}) {
    CHECK(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyHostToDevice, stream.get()) == cudaSuccess);
    std::fill_n(from, kCount, 2.0F);
  }
  gate.open();
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(all(from_pinned.read(), 2));
  CHECK(all(from_pageable.read(), 1));
}

}  // namespace
#endif
