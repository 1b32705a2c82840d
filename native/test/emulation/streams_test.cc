#ifdef SIDA_CUDA_EMULATED

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "device/cuda/cuda_handles.h"
#include "doctest/doctest.h"
#include "support/emulation_fixtures.h"

namespace sida::cuda {
namespace {

using namespace testing;

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

CudaStream blocking_stream() {
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreate(&stream));
  return CudaStream(stream);
}

CudaEvent timed_event() {
  cudaEvent_t event = nullptr;
  require_success(cudaEventCreate(&event));
  return CudaEvent(event);
}

TEST_CASE("cuda emulation: an event orders streams, whatever the delay") {
  const FreshDevice device;
  emulation::set_longest_delay(500);
  const CudaStream copies = make_cuda_stream();
  const CudaStream compute = make_cuda_stream();
  const CudaEvent copied = make_cuda_event();
  const CudaEvent computed = make_cuda_event();
  const auto host = pinned_floats(0);
  const FreshFloats in;
  const FreshFloats out;
  for (int round = 1; round <= 20; ++round) {
    std::fill_n(host.get(), kCount, static_cast<float>(round));
    CHECK(cudaMemcpyAsync(in.data(), host.get(), kBytes, cudaMemcpyHostToDevice, copies.get()) ==
          cudaSuccess);
    CHECK(cudaEventRecord(copied.get(), copies.get()) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(compute.get(), copied.get()) == cudaSuccess);
    launch_twice(in.data(), out.data(), compute.get());
    CHECK(cudaEventRecord(computed.get(), compute.get()) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(copies.get(), computed.get()) == cudaSuccess);
    CHECK(cudaMemcpyAsync(host.get(), out.data(), kBytes, cudaMemcpyDeviceToHost, copies.get()) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(copies.get()) == cudaSuccess);
    CHECK(all({host.get(), &host[kCount]}, 2.0F * static_cast<float>(round)));
  }
}

TEST_CASE("cuda emulation: without an event a stream does not wait for another") {
  const FreshDevice device;
  const CudaStream copies = make_cuda_stream();
  const CudaStream compute = make_cuda_stream();
  const auto host = pinned_floats(1);
  const FreshFloats in;
  const FreshFloats out;
  Gate gate(copies.get());
  CHECK(cudaMemcpyAsync(in.data(), host.get(), kBytes, cudaMemcpyHostToDevice, copies.get()) == cudaSuccess);
  launch_twice(in.data(), out.data(), compute.get());
  CHECK(cudaStreamSynchronize(compute.get()) == cudaSuccess);
  gate.open();
  CHECK(cudaStreamSynchronize(copies.get()) == cudaSuccess);
  CHECK(all_nan(out.read()));
  CHECK(all(in.read(), 1));
}

TEST_CASE("cuda emulation: pinned memory is read when the copy runs, pageable memory when it is asked for") {
  const FreshDevice device;
  const CudaStream stream = make_cuda_stream();
  const auto pinned = pinned_floats(1);
  std::vector<float> pageable(kCount, 1);
  const FreshFloats from_pinned;
  const FreshFloats from_pageable;
  Gate gate(stream.get());
  CHECK(cudaMemcpyAsync(from_pinned.data(), pinned.get(), kBytes, cudaMemcpyDefault, stream.get()) ==
        cudaSuccess);
  CHECK(cudaMemcpyAsync(from_pageable.data(), pageable.data(), kBytes, cudaMemcpyDefault, stream.get()) ==
        cudaSuccess);
  std::fill_n(pinned.get(), kCount, 2.0F);
  std::fill(pageable.begin(), pageable.end(), 2);
  gate.open();
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(all(from_pinned.read(), 2));
  CHECK(all(from_pageable.read(), 1));
}

TEST_CASE("cuda emulation: queries say whether work is done") {
  const FreshDevice device;
  const CudaStream stream = make_cuda_stream();
  const CudaEvent start = timed_event();
  const CudaEvent end = timed_event();
  const CudaEvent untimed = make_cuda_event();
  float milliseconds = -1;
  CHECK(cudaEventQuery(end.get()) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start.get(), end.get()) == cudaErrorInvalidResourceHandle);
  Gate gate(stream.get());
  for (cudaEvent_t event : {start.get(), end.get(), untimed.get()}) {
    CHECK(cudaEventRecord(event, stream.get()) == cudaSuccess);
  }
  CHECK(cudaEventQuery(end.get()) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(stream.get()) == cudaErrorNotReady);
  CHECK(cudaEventElapsedTime(&milliseconds, start.get(), end.get()) == cudaErrorNotReady);
  gate.open();
  CHECK(cudaEventSynchronize(untimed.get()) == cudaSuccess);
  CHECK(cudaEventQuery(end.get()) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start.get(), end.get()) == cudaSuccess);
  CHECK(milliseconds >= 0);
  CHECK(cudaEventElapsedTime(&milliseconds, start.get(), untimed.get()) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("cuda emulation: the default stream serializes only with blocking streams") {
  const FreshDevice device;
  const CudaStream blocking = blocking_stream();
  const CudaStream other = make_cuda_stream();
  Gate gate(blocking.get());
  CHECK(cudaMemcpyAsync(nullptr, nullptr, 0, cudaMemcpyDefault, other.get()) == cudaSuccess);
  const FreshFloats memory;
  CHECK(cudaMemsetAsync(memory.data(), 0, kBytes) == cudaSuccess);
  CHECK(cudaStreamSynchronize(other.get()) == cudaSuccess);
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  gate.open();
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(all(memory.read(), 0));
}

TEST_CASE("cuda emulation: host memory can be pinned where it is") {
  const FreshDevice device;
  std::vector<float> host(kCount, 1);
  CHECK(cudaHostRegister(host.data(), kBytes, cudaHostRegisterDefault) == cudaSuccess);
  CHECK(cudaHostRegister(host.data() + 1, 4, cudaHostRegisterDefault) ==
        cudaErrorHostMemoryAlreadyRegistered);
  const CudaStream stream = make_cuda_stream();
  const FreshFloats memory;
  {
    Gate gate(stream.get());
    CHECK(cudaMemcpyAsync(memory.data(), host.data(), kBytes, cudaMemcpyDefault, stream.get()) ==
          cudaSuccess);
    host[0] = 2;
    gate.open();
    CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  }
  CHECK(memory.read()[0] == 2);
  CHECK(cudaHostUnregister(host.data()) == cudaSuccess);
  CHECK(cudaHostUnregister(host.data()) == cudaErrorHostMemoryNotRegistered);
}

}  // namespace
}  // namespace sida::cuda

#endif
